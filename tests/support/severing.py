"""A way between two servers that can be cut, so that neither of them is told."""

from __future__ import annotations

import socket
import threading
from types import TracebackType


class Way:
    """Forwards connections to a port of this machine, until it is cut.

    Args:
        target: the port.

    Attributes:
        port: where it listens.
        used: how many connections there were.
    """

    def __init__(self, target: int) -> None:
        self.used = 0
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._closed = False
        self._sockets: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Nothing arrives any more, and nobody hears of that."""
        self._open.clear()

    def mend(self) -> None:
        """All that was sent arrives."""
        self._open.set()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listening.accept()
            except OSError:
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            self.used += 1
            self._sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self._open.wait()
                target.sendall(data)
        except OSError:
            pass
        finally:
            source.close()
            target.close()

    def close(self) -> None:
        self._closed = True
        self._open.set()
        self._listening.close()
        for one in self._sockets:
            one.close()

    def __enter__(self) -> Way:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
