"""A relay on loopback that counts what passes: the bytes that a client receives from a server."""

import socket
import socketserver
import threading
from contextlib import contextmanager, suppress

from servers.loopback import HOST


class Counts:
    """Bytes received since the last `reset`, and the relay's own port."""

    def __init__(self, port):
        self.port = port
        self.lock = threading.Lock()
        self.reset()

    def reset(self):
        self.received = 0

    def add(self, block):
        with self.lock:
            self.received += len(block)


def pump(source, sink, count):
    with suppress(OSError):
        while block := source.recv(65536):
            count(block)
            sink.sendall(block)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def counting_relay(port):
    """Pass connections on to ``port``; yields the counts."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection((HOST, port)) as server:
                for end in (self.request, server):  # small answers must not wait for more to send
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=pump, args=(self.request, server, len), daemon=True).start()
                pump(server, self.request, counts.add)

    with socketserver.ThreadingTCPServer((HOST, 0), Connection) as relay:
        relay.daemon_threads, relay.block_on_close = True, False
        counts = Counts(relay.server_address[1])
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        yield counts
        relay.shutdown()
