"""Error messages of a cluster. (Killed workers and reductions: tests/pipeline_runs/test_*_on_cluster.py.)"""

import sys

import numpy as np
import pytest

from dask_cluster import RealCluster
from pipeline.errors import ClusterError, InputError
from pipeline.extraction import cluster
from pipeline.extraction.cluster import (
    ADDRESS,
    CODE,
    Requirements,
    cluster_from_environment,
    code_digest,
    connected,
    software,
    unmet,
)


@pytest.mark.parametrize(
    ("dask", "message"),
    [
        (False, r"dask is not installed; pip install .*\[cluster\]"),
        (True, rf"{ADDRESS}=tcp://127.0.0.1:9: no scheduler"),
    ],
)
def test_an_address_without_dask_or_scheduler_is_an_error(monkeypatch, tmp_path, dask, message):
    monkeypatch.setenv(ADDRESS, "tcp://127.0.0.1:9")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    if not dask:
        monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ClusterError, match=message), cluster_from_environment(tmp_path):
        pass


def test_an_unmet_requirement_is_named_with_the_remedy(tmp_path):
    token, absent = tmp_path / "project/.referee/scratch/token", tmp_path / "absent"
    token.parent.mkdir(parents=True)
    token.write_text("secret")

    def problem(content="secret", path=tmp_path, **versions):
        return unmet(Requirements(token, content, (path,), {**software(), **versions}))

    assert problem() is None
    other_numpy = f"has numpy {np.__version__}, this process 1.0.0; install the versions in constraints.txt"
    assert other_numpy in problem(numpy="1.0.0")
    assert "other code of this package" in problem(**{CODE: "b"})
    assert f"does not see {tmp_path / 'project'}; start" in problem("that of another project")
    assert f"does not see {absent}; mount" in problem(path=absent)


def test_code_digest_depends_on_file_names_and_contents_but_not_on_the_folder(tmp_path):
    for folder, name, code in (("original", "a", 1), ("copy", "a", 1), ("edited", "a", 2), ("renamed", "b", 1)):
        (tmp_path / folder / "part").mkdir(parents=True)
        (tmp_path / folder / "part" / f"{name}.py").write_text(f"x = {code}\n")
        (tmp_path / folder / "part" / f"{folder}.txt").write_text("no code")
    original, copy, *others = (code_digest(tmp_path / name) for name in ("original", "copy", "edited", "renamed"))
    assert original == copy
    assert original not in others


@pytest.mark.slow
def test_a_failing_task_and_a_killed_worker_are_one_line_errors(tmp_path):
    def work(number):  # pickled by value, because workers cannot import this file
        import os

        from pipeline.errors import InputError

        if number == 2:
            raise InputError("photo.jpg: cannot be read")
        if number == 3:
            os._exit(1)
        return -number

    with RealCluster(tmp_path / "cluster", DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as dask:
        dask.add_worker()
        scratch = tmp_path / "project" / ".referee" / "scratch"
        with connected(dask.address, scratch) as connection:
            assert connection.map(work, [0, 1, 5, 4]) == [0, -1, -5, -4]
            with pytest.raises(InputError, match=r"photo.jpg: cannot be read \(on worker tcp://"):
                connection.map(work, range(3))
            with pytest.raises(ClusterError, match=r"1 workers died at the same piece of work, .*look into their logs"):
                connection.map(work, [3])
        assert not list(scratch.iterdir())
