"""Features shared through a real SSH server that the test starts: OpenSSH.

The recipe is that of docs/how-to/sharing.md.
"""

import tempfile
from pathlib import Path

import pytest

from servers.openssh import running_ssh
from sharing_story import SharedRemote, share_and_hand_back

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder, running_ssh(Path(folder)) as started:
        yield started


def test_a_teammate_without_images_or_weights(run_project, server, tmp_path):
    remote = SharedRemote(
        section="SSH",
        instead={
            "host.example.org:22": f"127.0.0.1:{server.port}",
            "/data/referee": f"{tmp_path}/remote",
            "--user me": f"--user {server.user}",
            "~/.ssh/id_ed25519": str(server.keyfile),
        },
        secrets=(f"user = {server.user}", str(server.keyfile)),
    )
    share_and_hand_back(run_project, tmp_path, remote)
    assert list((tmp_path / "remote/files/md5").iterdir())
