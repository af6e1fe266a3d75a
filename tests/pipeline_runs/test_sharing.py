"""Features shared through a folder, over OpenSSH and through a real S3 server (SeaweedFS).

The recipes are those of docs/how-to/sharing.md. `referee share` with real servers is in tests/cli/test_share.py.
"""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from documented_commands import commands_of
from pipeline.report.table import format_figure
from servers.openssh import running_ssh
from servers.seaweedfs import running_s3
from sharing_story import PAGE, SharedRemote, find_pngs, join, metrics, share_and_hand_back, shared_folder
from small_project import stages_run

pytestmark = pytest.mark.slow

FIRST_LOOK = 25_000  # bytes that the server sends for `inspect --remote`, of a store six times as large


def test_a_teammate_without_images_or_weights_gets_a_result(project_copy, tmp_path):
    (tmp_path / "remote").mkdir()
    owners_page = project_copy.results("report.html").read_bytes()
    mate = share_and_hand_back(project_copy, tmp_path, shared_folder(tmp_path / "remote"))
    assert find_pngs(tmp_path / "remote") == []
    assert "left-right" in mate.run("referee", "summary").stdout
    # each makes a report; the owner's, which has pictures, was never sent
    assert "No pictures" in mate.results("report.html").read_text(encoding="utf-8")
    assert b"data:image/" in owners_page
    sent = [file.read_bytes() for file in (tmp_path / "remote").rglob("*") if file.is_file()]
    assert not [content for content in sent if b"data:image/" in content]


@pytest.mark.long
def test_the_same_over_ssh(project_copy, tmp_path):
    with TemporaryDirectory() as folder, running_ssh(Path(folder)) as server:
        instead = {
            "host.example.org:22": f"127.0.0.1:{server.port}",
            "/data/referee": f"{tmp_path}/remote",
            "--user me": f"--user {server.user}",
            "~/.ssh/id_ed25519": str(server.keyfile),
        }
        remote = SharedRemote("SSH", instead, secrets=(f"user = {server.user}", str(server.keyfile)))
        share_and_hand_back(project_copy, tmp_path, remote)
    assert list((tmp_path / "remote/files/md5").iterdir())


@pytest.mark.long
def test_the_same_through_s3_where_others_look_and_repeat_for_little(project_copy, tmp_path):
    with TemporaryDirectory() as folder, running_s3(Path(folder)) as server:
        instead = {"s3://bucket/": f"s3://{server.bucket}/", "https://s3.example.org": server.endpoint}
        keys = server.credentials()
        s3 = SharedRemote("S3", instead, environment=keys, secrets=tuple(keys.values()))
        mate = share_and_hand_back(project_copy, tmp_path, s3)
        assert "left-right" in mate.run("dvc", "metrics", "show", "results/toy/metrics.json").stdout
        repeat_for_nothing(mate, join(mate, tmp_path / "third", s3), s3)
        look_and_pull_little(mate, join(mate, tmp_path / "looker", s3), server)
        open_by_address(mate, keys)


def repeat_for_nothing(mate, third, s3):
    """Who makes B's change without B's commit computes nothing either: the run-cache knows it."""
    third.run("git", "reset", "--quiet", "--hard", "HEAD~1")
    third.change_params(rff={"sigma": 1e-2})
    assert stages_run(third.run("bash", "-c", s3.recipe()[-1]).stdout) <= {"report"}
    assert metrics(third) == metrics(mate)


def look_and_pull_little(mate, looker, server):
    """The commands of "A first look, pulling nothing": what they show is right, and the server sends little."""

    def output_and_bytes(command):
        before = server.bytes_sent()
        return looker.run("bash", "-c", command).stdout, server.bytes_sent() - before

    examples = "\n".join(commands_of(PAGE, "Look at results before downloading features"))
    here = examples.replace("mnist-uci", "left-right").replace("embeddings/uci", "embeddings/right")
    summary, inspect, compare = here.splitlines()
    output, sent = output_and_bytes(inspect)
    store = "cache/embeddings/right/vit.zarr"
    assert f"{store}: on team" in output
    assert re.search(r"rand +float16 +\[24, 24\]", output)
    assert size_of(mate.folder / store) > 5 * FIRST_LOOK
    assert 0 < sent < FIRST_LOOK
    output, sent = output_and_bytes(summary)
    measured = json.loads((mate.folder / "results/toy/problems/left-right/comparison.json").read_text())
    found = measured["methods"]["calibrated"]
    assert format_figure(found["A_T"], found["A_T_sd"], plus_minus="±") in output
    assert 0 < sent < FIRST_LOOK
    assert not (looker.folder / ".dvc/cache").exists()
    assert not (looker.folder / "cache/embeddings").exists()

    looker.change_params(compare={"methods": ["clip_zero_shot", "nearest_mean"]})
    output, sent = output_and_bytes(compare)
    assert stages_run(output) == {"code", "compare@left-right"}
    assert "nearest_mean" in (looker.folder / "results/toy/problems/left-right/comparison.json").read_text()
    assert not (looker.folder / "cache/source").exists()
    needed = sum(size_of(mate.folder / "cache" / kind) for kind in ("embeddings", "manifests", "prompts", "code"))
    assert sent < needed + 30_000, "more came than the problem's features and the lists of their files"


def open_by_address(mate, keys):
    """The Python API reads the remote of a git address; keys that are wrong are one line."""
    rows = f"import pipeline; print(pipeline.open_cache('file://{mate.folder}').rows('right', 'vit').numpy().shape)"
    assert mate.run("python", "-c", rows, **keys).stdout == "(24, 24)\n"
    refused = mate.run("python", "-c", rows, ok=False, **keys | {"AWS_SECRET_ACCESS_KEY": "another"})
    assert refused.stderr.splitlines()[-1].startswith("pipeline.errors.InputError: cache/")


def size_of(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
