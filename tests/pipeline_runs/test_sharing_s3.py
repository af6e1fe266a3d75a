"""Features shared through a real S3 server that the test starts: SeaweedFS."""

import tempfile
from pathlib import Path

import pytest

from servers.counting_relay import counting_relay
from servers.seaweedfs import S3Server, running_s3
from sharing_story import Place, tell

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder, running_s3(Path(folder)) as started:
        yield started


def test_a_teammate_without_images_or_weights(run_project, server, tmp_path):
    with counting_relay(server.port) as relay:
        through_relay = S3Server(relay.port, server.access_key, server.secret_key, server.bucket)
        place = Place(
            share=(
                f"s3://{server.bucket}/referee",
                *("--endpoint-url", through_relay.endpoint, "--region", "us-east-1", "--save-keys"),
            ),
            join=("--save-keys",),
            environment=server.credentials(),
            secrets=(server.access_key, server.secret_key),
            relay=relay,
        )
        tell(run_project, tmp_path, place)
