"""Features shared through a real S3 server that the test starts: SeaweedFS.

The recipe is that of docs/how-to/sharing.md.
"""

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.report.table import format_figure
from servers.counting_relay import counting_relay
from servers.seaweedfs import running_s3
from sharing_story import PAGE, SharedRemote, commands_of, join, same_change_elsewhere, share_and_hand_back
from small_project import stages_run

# The story with a folder is part of `make test`, and so is `referee share` with this server (tests/cli).
pytestmark = [pytest.mark.slow, pytest.mark.long]

FIRST_LOOK = 25_000  # bytes over the wire of `inspect --remote`, of a store six times as large


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder, running_s3(Path(folder)) as started:
        yield started


@pytest.fixture(scope="module")
def remote(server):
    with counting_relay(server.port) as relay:
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


@pytest.fixture(scope="module")
def mate(run_project, remote, tmp_path_factory):
    return share_and_hand_back(run_project, tmp_path_factory.mktemp("story"), remote)


def test_a_teammate_without_images_or_weights(mate):
    """The story is in the fixture; here B's result is seen once more."""
    assert "left-right" in mate.run("dvc", "metrics", "show", "results/toy/metrics.json").stdout


def test_who_makes_the_same_change_computes_nothing(mate, remote, tmp_path):
    same_change_elsewhere(mate, tmp_path / "third", remote)


def test_a_first_look_reads_little_and_keeps_nothing(mate, remote, tmp_path):
    examples = "\n".join(commands_of(PAGE, "A first look, pulling nothing"))
    here = examples.replace("mnist-uci", "left-right").replace("embeddings/uci", "embeddings/right")
    summary, inspect, compare = here.splitlines()
    looker = join(mate, tmp_path / "looker", remote)
    remote.relay.reset()
    output = looker.run("bash", "-c", inspect).stdout
    store = "cache/embeddings/right/vit.zarr"
    assert f"{store}: on team" in output
    assert re.search(r"rand +float16 +\[24, 24\]", output)
    size = sum(file.stat().st_size for file in (mate.folder / store).rglob("*") if file.is_file())
    assert size > 5 * FIRST_LOOK
    assert 0 < remote.relay.received < FIRST_LOOK
    remote.relay.reset()
    output = looker.run("bash", "-c", summary).stdout
    measured = json.loads((mate.folder / "results/toy/problems/left-right/comparison.json").read_text())
    found = measured["methods"]["calibrated"]
    assert format_figure(found["A_T"], found["A_T_sd"], plus_minus="±") in output
    assert 0 < remote.relay.received < FIRST_LOOK
    assert not (looker.folder / ".dvc/cache").exists()
    assert not (looker.folder / "cache/embeddings").exists()

    remote.relay.reset()
    looker.change_params(compare={"methods": ["clip_zero_shot", "nearest_mean"]})
    assert stages_run(looker.run("bash", "-c", compare).stdout) == {"code", "compare@left-right"}
    assert "nearest_mean" in (looker.folder / "results/toy/problems/left-right/comparison.json").read_text()
    assert not (looker.folder / "cache/source").exists()
    read = [mate.folder / "cache" / kind for kind in ("embeddings", "manifests", "prompts", "code")]
    needed = [file.stat().st_size for folder in read for file in folder.rglob("*") if file.is_file()]
    # and about a kilobyte of headers for each of a hundred files
    assert remote.relay.received < sum(needed) + 100_000, "more came than the problem's features"
