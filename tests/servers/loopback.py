"""Helpers to run a server in a test: find free ports, start and stop the process, skip if it cannot start."""

import os
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest

HOST = "127.0.0.1"


def free_ports(count):
    """Return different free ports; each is held until the last one is found."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def cannot_start(server, reason):
    """Skip the test, or fail in CI, where every server must run."""
    message = f"{server} cannot be started here: {reason}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def running(command, answers, log, *, server, cwd=None, patience=10):
    """Start a server that writes to ``log``, wait until ``answers()`` is true, and stop it at the end.

    If the server ends or does not answer for a minute, see `cannot_start`. At the end the server is killed if it does
    not terminate within ``patience`` seconds.
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
