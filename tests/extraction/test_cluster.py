"""A cluster that cannot do the work: one line. (Kills and reductions: tests/pipeline_runs/test_*_on_cluster.py.)"""

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
def test_an_address_without_dask_or_where_no_scheduler_answers(monkeypatch, tmp_path, dask, message):
    monkeypatch.setenv(ADDRESS, "tcp://127.0.0.1:9")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    if not dask:
        monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ClusterError, match=message), cluster_from_environment(tmp_path):
        pass


def test_what_a_worker_lacks_is_named(tmp_path):
    token, absent = tmp_path / "project/.referee/scratch/token", tmp_path / "absent"
    token.parent.mkdir(parents=True)
    token.write_text("secret")

    def lacking(content="secret", path=tmp_path, **other):
        return unmet(Requirements(token, content, (path,), {**software(), **other}))

    assert lacking() is None
    assert f"has numpy {np.__version__}, this process 1.0.0; install the versions in constraints.txt" in lacking(
        numpy="1.0.0"
    )
    assert "other code of this package" in lacking(**{CODE: "b"})
    assert f"does not see {tmp_path / 'project'}; start" in lacking("that of another project")
    assert f"does not see {absent}; mount" in lacking(path=absent)


def test_code_is_known_by_names_and_contents_wherever_it_lies(tmp_path):
    for folder, name, code in (("one", "a", 1), ("same", "a", 1), ("edited", "a", 2), ("renamed", "b", 1)):
        (tmp_path / folder / "part").mkdir(parents=True)
        (tmp_path / folder / "part" / f"{name}.py").write_text(f"x = {code}\n")
        (tmp_path / folder / "part" / f"{folder}.txt").write_text("no code")
    one, same, *others = (code_digest(tmp_path / name) for name in ("one", "same", "edited", "renamed"))
    assert one == same
    assert one not in others


@pytest.mark.slow
def test_work_that_fails_or_kills_its_workers_is_one_line(tmp_path):
    def work(number):  # by value on its way: workers cannot import this file
        import os

        from pipeline.errors import InputError

        if number == 2:
            raise InputError("photo.jpg: cannot be read")
        if number == 3:
            os._exit(1)
        return -number

    with RealCluster(tmp_path / "cluster", DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as real:
        real.add_worker()
        scratch = tmp_path / "project" / ".referee" / "scratch"
        with connected(real.address, scratch) as connection:
            assert connection.map(work, [0, 1, 5, 4]) == [0, -1, -5, -4]
            with pytest.raises(InputError, match=r"photo.jpg: cannot be read \(on worker tcp://"):
                connection.map(work, range(3))
            with pytest.raises(ClusterError, match=r"1 workers died at the same piece of work, .*look into their logs"):
                connection.map(work, [3])
        assert not list(scratch.iterdir())
