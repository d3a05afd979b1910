"""A relay that adds a delay each way, in a process of its own: `python -m benchmarks.slow_link <host> <port> <delay>`.

It prints the port it listens on, and ends when its standard input ends.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import cast

from .crew import ROOT


class _Side(asyncio.Protocol):
    """One end; it writes what arrives to the other end `delay` seconds later, in order."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._loop = asyncio.get_running_loop()
        self._due: deque[tuple[float, bytes]] = deque()
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self.other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        for data in self._early:
            self._transport.write(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        self._due.append((self._loop.time() + self._delay, data))
        if len(self._due) == 1:
            self._loop.call_at(self._due[0][0], self._forward)

    def _forward(self) -> None:
        assert self.other is not None
        now = self._loop.time()
        while self._due and self._due[0][0] <= now:
            self.other.write(self._due.popleft()[1])
        if self._due:
            self._loop.call_at(self._due[0][0], self._forward)

    def write(self, data: bytes) -> None:
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()


async def relay(host: str, port: int, delay: float) -> None:
    """Serve until cancelled."""
    loop = asyncio.get_running_loop()
    dialling: set[asyncio.Task[object]] = set()

    def accept() -> _Side:
        client, server = _Side(delay), _Side(delay)
        client.other, server.other = server, client
        task: asyncio.Task[object] = loop.create_task(loop.create_connection(lambda: server, host, port))
        dialling.add(task)
        task.add_done_callback(dialling.discard)
        return client

    listener = await loop.create_server(accept, "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)
    threading.Thread(target=_await_end, args=(loop, asyncio.current_task()), daemon=True).start()
    with suppress(asyncio.CancelledError):
        await listener.serve_forever()


def _await_end(loop: asyncio.AbstractEventLoop, task: asyncio.Task[object]) -> None:
    sys.stdin.read()
    loop.call_soon_threadsafe(task.cancel)


@contextmanager
def slow_link(host: str, port: int, delay: float) -> Iterator[str]:
    """Start such a process; return its URL."""
    words = [sys.executable, "-m", "benchmarks.slow_link", host, str(port), str(delay)]
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"redis://127.0.0.1:{process.stdout.readline().strip()}/0"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def _precise_loop() -> asyncio.AbstractEventLoop:
    # epoll rounds a timeout up to whole milliseconds, which would add up to half of the delay.
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=_precise_loop) as runner:
        runner.run(relay(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
