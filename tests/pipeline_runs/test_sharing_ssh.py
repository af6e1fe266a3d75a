"""Features shared through a real SSH server that the test starts: OpenSSH."""

import tempfile
from pathlib import Path

import pytest

from servers.counting_relay import counting_relay
from servers.openssh import running_ssh
from sharing_story import Place, change_sigma_and_run, give, hand_back, join

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder, running_ssh(Path(folder)) as started:
        yield started


def test_a_teammate_without_images_or_weights(run_project, server, tmp_path):
    own = ("--user", server.user, "--key-file", str(server.keyfile))
    with counting_relay(server.port) as relay:
        place = Place(
            share=(f"ssh://127.0.0.1:{relay.port}{tmp_path}/remote", *own),
            join=own,
            environment={},
            secrets=(f"user = {server.user}", str(server.keyfile)),
            relay=relay,
        )
        give(run_project, place)
        mate = join(run_project, tmp_path / "mate", place)
        change_sigma_and_run(run_project, mate, tmp_path, place)
        hand_back(run_project, mate)
