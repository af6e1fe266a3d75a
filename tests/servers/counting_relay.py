"""A relay on loopback that counts what passes: the bytes a client sends to a server and receives from it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from servers.loopback import HOST


class Counts:
    """Bytes in each direction since the last `reset`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.sent = self.received = 0

    def add(self, *, sent: int = 0, received: int = 0) -> None:
        """Count."""
        with self._lock:
            self.sent += sent
            self.received += received


def _pump(source: socket.socket, sink: socket.socket, counts: Counts, direction: str) -> None:
    with suppress(OSError):
        while block := source.recv(65536):
            counts.add(**{direction: len(block)})
            sink.sendall(block)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _serve(listener: socket.socket, port: int, counts: Counts, opened: list[socket.socket]) -> None:
    with suppress(OSError):  # the listener was closed
        while True:
            client, _ = listener.accept()
            server = socket.create_connection((HOST, port))
            opened += client, server
            for connection in (client, server):  # small answers must not wait for more to send
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink, direction in ((client, server, "sent"), (server, client, "received")):
                threading.Thread(target=_pump, args=(source, sink, counts, direction), daemon=True).start()


@contextmanager
def counting_relay(port: int) -> Iterator[Counts]:
    """Pass connections on to ``port`` and count them; yields the counts, which name the relay's own port."""
    opened: list[socket.socket] = []
    with socket.create_server((HOST, 0)) as listener:
        counts = Counts(listener.getsockname()[1])
        threading.Thread(target=_serve, args=(listener, port, counts, opened), daemon=True).start()
        try:
            yield counts
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for connection in opened:
                connection.close()
