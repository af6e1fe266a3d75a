"""Features shared through a folder, over OpenSSH and through a real S3 server (SeaweedFS).

The recipes are those of docs/how-to/sharing.md. `referee share` with real servers is in tests/cli/test_share.py.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from documented_commands import commands_of
from pipeline.report.table import format_figure
from servers.counting_relay import counting_relay
from servers.openssh import running_ssh
from servers.seaweedfs import running_s3
from sharing_story import PAGE, SharedRemote, images_among, join, metrics, share_and_hand_back, shared_folder
from small_project import stages_run

pytestmark = pytest.mark.slow

FIRST_LOOK = 25_000  # bytes over the wire of `inspect --remote`, of a store six times as large


def test_a_teammate_without_images_or_weights_gets_a_result(project_copy, tmp_path):
    (tmp_path / "remote").mkdir()
    owners_page = project_copy.results("report.html").read_bytes()
    mate = share_and_hand_back(project_copy, tmp_path, shared_folder(tmp_path / "remote"))
    assert images_among(tmp_path / "remote") == []
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


@pytest.fixture
def s3():
    with TemporaryDirectory() as folder, running_s3(Path(folder)) as server, counting_relay(server.port) as relay:
        yield SharedRemote(
            section="S3",
            instead={
                "s3://bucket/": f"s3://{server.bucket}/",
                "https://s3.example.org": replace(server, port=relay.port).endpoint,
            },
            environment=server.credentials(),
            secrets=(server.access_key, server.secret_key),
            relay=relay,
        )


@pytest.mark.long
def test_the_same_through_s3_where_others_look_and_repeat_for_little(project_copy, s3, tmp_path):
    mate = share_and_hand_back(project_copy, tmp_path, s3)
    assert "left-right" in mate.run("dvc", "metrics", "show", "results/toy/metrics.json").stdout

    # who makes B's change without B's commit computes nothing either: the run-cache knows it
    third = join(mate, tmp_path / "third", s3)
    third.run("git", "reset", "--quiet", "--hard", "HEAD~1")
    third.change_params(rff={"sigma": 1e-2})
    assert stages_run(third.run("bash", "-c", s3.recipe()[-1]).stdout) <= {"report"}
    assert metrics(third) == metrics(mate)

    look_and_pull_little(mate, join(mate, tmp_path / "looker", s3), s3.relay)


def look_and_pull_little(mate, looker, relay):
    """Run the commands for a look at results: what they show is right, and little passes the wire."""
    examples = "\n".join(commands_of(PAGE, "Look at results before downloading features"))
    here = examples.replace("mnist-uci", "left-right").replace("embeddings/uci", "embeddings/right")
    summary, inspect, compare = here.splitlines()
    relay.reset()
    output = looker.run("bash", "-c", inspect).stdout
    store = "cache/embeddings/right/vit.zarr"
    assert f"{store}: on team" in output
    assert re.search(r"rand +float16 +\[24, 24\]", output)
    assert size_of(mate.folder / store) > 5 * FIRST_LOOK
    assert 0 < relay.received < FIRST_LOOK
    relay.reset()
    output = looker.run("bash", "-c", summary).stdout
    measured = json.loads((mate.folder / "results/toy/problems/left-right/comparison.json").read_text())
    found = measured["methods"]["calibrated"]
    assert format_figure(found["A_T"], found["A_T_sd"], plus_minus="±") in output
    assert 0 < relay.received < FIRST_LOOK
    assert not (looker.folder / ".dvc/cache").exists()
    assert not (looker.folder / "cache/embeddings").exists()

    relay.reset()
    looker.change_params(compare={"methods": ["clip_zero_shot", "nearest_mean"]})
    assert stages_run(looker.run("bash", "-c", compare).stdout) == {"code", "compare@left-right"}
    assert "nearest_mean" in (looker.folder / "results/toy/problems/left-right/comparison.json").read_text()
    assert not (looker.folder / "cache/source").exists()
    needed = sum(size_of(mate.folder / "cache" / kind) for kind in ("embeddings", "manifests", "prompts", "code"))
    # and about a kilobyte of headers for each of a hundred files
    assert relay.received < needed + 100_000, "more came than the problem's features"


def size_of(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
