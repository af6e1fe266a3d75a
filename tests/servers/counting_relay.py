"""A relay on loopback that counts what passes: the bytes a client sends to a server and receives from it."""

import socket
import threading
from contextlib import contextmanager, suppress

from servers.loopback import HOST


class Counts:
    """Bytes in each direction since the last `reset`."""

    def __init__(self, port):
        self.port = port
        self._lock = threading.Lock()
        self.reset()

    def reset(self):
        """Begin anew."""
        self.sent = self.received = 0

    def add(self, *, sent=0, received=0):
        """Count."""
        with self._lock:
            self.sent += sent
            self.received += received


def _pump(source, sink, counts, direction):
    with suppress(OSError):
        while block := source.recv(65536):
            counts.add(**{direction: len(block)})
            sink.sendall(block)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _serve(listener, port, counts, opened):
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
def counting_relay(port):
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
