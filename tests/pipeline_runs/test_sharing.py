"""Features shared through a folder and over OpenSSH; the same story over S3 is in test_sharing_s3.py.

The recipe is that of docs/how-to/sharing.md. `referee share` with real servers is in tests/cli/test_share.py.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from servers.openssh import running_ssh
from sharing_story import SharedRemote, images_among, share_and_hand_back

pytestmark = pytest.mark.slow


def test_a_teammate_without_images_or_weights_gets_a_result(run_project, tmp_path):
    (tmp_path / "remote").mkdir()
    remote = SharedRemote("A shared folder", {"/mnt/team/referee": str(tmp_path / "remote")})
    owners_page = run_project.results("report.html").read_bytes()
    mate = share_and_hand_back(run_project, tmp_path, remote)
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
