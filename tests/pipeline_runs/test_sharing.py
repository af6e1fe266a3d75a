"""Share features through a folder, OpenSSH and a real S3 server (SeaweedFS).

The commands are those of docs/how-to/sharing.md. `referee share` with real servers is in tests/cli/test_share.py.
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

MAX_SENT = 25_000  # bytes sent by the server for `inspect --remote` of a store six times as large


def test_teammate_without_images_and_weights_gets_a_result(project_copy, tmp_path):
    (tmp_path / "remote").mkdir()
    owner_page = project_copy.results("report.html").read_bytes()
    mate = share_and_hand_back(project_copy, tmp_path, shared_folder(tmp_path / "remote"))
    assert find_pngs(tmp_path / "remote") == []
    assert "left-right" in mate.run("referee", "summary").stdout
    # each user writes a report; the owner's, which has pictures, is never sent
    assert "No pictures" in mate.results("report.html").read_text(encoding="utf-8")
    assert b"data:image/" in owner_page
    sent = [file.read_bytes() for file in (tmp_path / "remote").rglob("*") if file.is_file()]
    assert not [content for content in sent if b"data:image/" in content]


@pytest.mark.long
def test_sharing_over_ssh(project_copy, tmp_path):
    with TemporaryDirectory() as folder, running_ssh(Path(folder)) as server:
        replacements = {
            "host.example.org:22": f"127.0.0.1:{server.port}",
            "/data/referee": f"{tmp_path}/remote",
            "--user me": f"--user {server.user}",
            "~/.ssh/id_ed25519": str(server.keyfile),
        }
        remote = SharedRemote("SSH", replacements, secrets=(f"user = {server.user}", str(server.keyfile)))
        share_and_hand_back(project_copy, tmp_path, remote)
    assert list((tmp_path / "remote/files/md5").iterdir())


@pytest.mark.long
def test_sharing_through_s3_and_inspecting_without_pulling(project_copy, tmp_path):
    with TemporaryDirectory() as folder, running_s3(Path(folder)) as server:
        replacements = {"s3://bucket/": f"s3://{server.bucket}/", "https://s3.example.org": server.endpoint}
        keys = server.credentials()
        s3 = SharedRemote("S3", replacements, environment=keys, secrets=tuple(keys.values()))
        mate = share_and_hand_back(project_copy, tmp_path, s3)
        assert "left-right" in mate.run("dvc", "metrics", "show", "results/toy/metrics.json").stdout
        check_run_cache(mate, join(mate, tmp_path / "third", s3), s3)
        check_first_look(mate, join(mate, tmp_path / "reader", s3), server)
        check_python_api(mate, keys)


def check_run_cache(mate, third, s3):
    """Make B's change without B's commit: the run-cache supplies the result, and nothing is computed."""
    third.run("git", "reset", "--quiet", "--hard", "HEAD~1")
    third.change_params(rff={"sigma": 1e-2})
    assert stages_run(third.run("bash", "-c", s3.recipe()[-1]).stdout) <= {"report"}
    assert metrics(third) == metrics(mate)


def check_first_look(mate, reader, server):
    """Run the commands of "Look at results before downloading features": output is right and little is sent."""

    def output_and_bytes(command):
        before = server.bytes_sent()
        return reader.run("bash", "-c", command).stdout, server.bytes_sent() - before

    text = "\n".join(commands_of(PAGE, "Look at results before downloading features"))
    text = text.replace("mnist-uci", "left-right").replace("embeddings/uci", "embeddings/right")
    summary, inspect, compare = text.splitlines()
    output, sent = output_and_bytes(inspect)
    store = "cache/embeddings/right/vit.zarr"
    assert f"{store}: on team" in output
    assert re.search(r"rand +float16 +\[24, 24\]", output)
    assert size_of(mate.folder / store) > 5 * MAX_SENT
    assert 0 < sent < MAX_SENT
    output, sent = output_and_bytes(summary)
    comparison = json.loads((mate.folder / "results/toy/problems/left-right/comparison.json").read_text())
    figures = comparison["methods"]["calibrated"]
    assert format_figure(figures["A_T"], figures["A_T_sd"], plus_minus="±") in output
    assert 0 < sent < MAX_SENT
    assert not (reader.folder / ".dvc/cache").exists()
    assert not (reader.folder / "cache/embeddings").exists()

    reader.change_params(compare={"methods": ["clip_zero_shot", "nearest_mean"]})
    output, sent = output_and_bytes(compare)
    assert stages_run(output) == {"code", "compare@left-right"}
    assert "nearest_mean" in (reader.folder / "results/toy/problems/left-right/comparison.json").read_text()
    assert not (reader.folder / "cache/source").exists()
    features = sum(size_of(mate.folder / "cache" / kind) for kind in ("embeddings", "manifests", "prompts", "code"))
    assert sent < features + 30_000, "more was sent than the problem's features and the lists of their files"


def check_python_api(mate, keys):
    """Open the cache of a git address in Python; wrong keys are reported in one line."""
    script = f"import pipeline; print(pipeline.open_cache('file://{mate.folder}').rows('right', 'vit').numpy().shape)"
    assert mate.run("python", "-c", script, **keys).stdout == "(24, 24)\n"
    done = mate.run("python", "-c", script, ok=False, **keys | {"AWS_SECRET_ACCESS_KEY": "wrong"})
    assert done.stderr.splitlines()[-1].startswith("pipeline.errors.InputError: cache/")


def size_of(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
