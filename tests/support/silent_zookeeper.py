"""What passes for a server of ZooKeeper, and does what real ones do in bad hours only."""

from __future__ import annotations

import asyncio
import struct
from types import TracebackType


class SilentZooKeeper:
    """Greets, and answers pings; all else stays without an answer.

    Attributes:
        session: what it offers to everybody, also to those who have another.
        greeting: sent instead of a greeting, if it is not empty.
        pings: whether it answers them.
        clients: how many connections there were.
    """

    def __init__(self) -> None:
        self.session = 1
        self.timeout_ms = 4000
        self.greeting = b""
        self.pings = True
        self.clients = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> SilentZooKeeper:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.clients += 1
        try:
            await self._packet(reader)
            password = struct.pack(">i", 16) + bytes(16)
            greeting = struct.pack(">iiq", 0, self.timeout_ms, self.session) + password + b"\0"
            writer.write(self.greeting or struct.pack(">i", len(greeting)) + greeting)
            while True:
                packet = await self._packet(reader)
                if packet[:4] == struct.pack(">i", -2) and self.pings:
                    writer.write(struct.pack(">iiqi", 16, -2, 0, 0))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    @staticmethod
    async def _packet(reader: asyncio.StreamReader) -> bytes:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)
