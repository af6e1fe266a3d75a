"""What every server that a test starts needs: free ports, a process that is stopped, a word where it cannot start."""

import os
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest

HOST = "127.0.0.1"


def free_ports(count):
    """Return ports that nobody listens on; all are held until the last is found, so they differ."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def cannot_start(server, reason):
    """Skip the test, naming the server; in CI, where every server must run, fail."""
    message = f"{server} cannot be started here: {reason}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def running(command, answers, log, *, server, cwd=None, patience=10):
    """Run a server that writes to ``log`` once ``answers()`` says so; stop it in the end, after ``patience`` by force.

    One that ends or stays silent for a minute cannot be started here.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd)
    try:
        deadline = time.monotonic() + 60
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                cannot_start(server, f"it does not answer; its log ends: {log.read_text()[-600:]}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
