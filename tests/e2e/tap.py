"""A recording TCP proxy between a SuperNode and the SuperLink."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Tap:
    """Passes everything on and keeps what the site sends, one byte string a connection."""

    def __init__(self) -> None:
        self._sent: list[bytearray] = []
        self.received = 0

    @property
    def sent(self) -> list[bytes]:
        """What the site has sent, connection by connection."""
        return [bytes(stream) for stream in self._sent]

    @contextmanager
    def open(self, target: int) -> Iterator[int]:
        """Stand before port `target` of loopback; gives the port to connect to instead."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=self._serve, args=(listener, target), daemon=True).start()
            yield int(listener.getsockname()[1])

    def _serve(self, listener: socket.socket, target: int) -> None:
        with suppress(OSError):
            while True:
                site, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", target))
                record = bytearray()
                self._sent.append(record)
                threading.Thread(target=self._copy, args=(site, server, record), daemon=True).start()
                threading.Thread(target=self._copy, args=(server, site, None), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, record: bytearray | None) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if record is not None:
                    record += data
                else:
                    self.received += len(data)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
