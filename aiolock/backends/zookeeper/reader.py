"""What is in an ensemble, and what its servers say of themselves, for those who only look."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import NamedTuple

from ...clock import SystemClock
from ...errors import AiolockError
from ..base import nothing
from ..coordinator.reader import CoordinatorReader
from ..coordinator.store import Away
from .address import ZooKeeperAddress
from .session import Session
from .store import ZooKeeperStore

AGES = 86_400.0
"""Seconds that no server lets a session last: so it says how long it does."""
_VERSION = re.compile(r"version: (\d[\w.]*)")
_MODE = re.compile(r"Mode: (\w+)")


class ServerStatus(NamedTuple):
    """What a server says of itself.

    Attributes:
        address: host and port.
        version: of ZooKeeper; "" if it does not say.
        mode: leader, follower, observer or standalone; "" if it does not say.
        longest: seconds that a lock lasts at most.
    """

    address: str
    version: str
    mode: str
    longest: float


class ZooKeeperReader(CoordinatorReader):
    """Looks at an ensemble; changes nothing.

    Args:
        url: of the ensemble.
        timeout: seconds for what a server says of itself.
    """

    def __init__(self, url: str, timeout: float = 5.0) -> None:
        self._source = ZooKeeperAddress(url)
        self._seconds = timeout
        super().__init__(f"ZooKeeper {self._source.shown}", lambda _: ZooKeeperStore(self._source))

    async def statuses(self) -> list[ServerStatus | AiolockError]:
        """What each server says of itself, or why it says nothing."""
        return [await self._status(host, port) for host, port in sorted(self._source.members)]

    async def _status(self, host: str, port: int) -> ServerStatus | AiolockError:
        session = Session(self._source.only(host, port), AGES, SystemClock(), nothing, nothing)
        try:
            await session.open()
            longest = session.longest
        except Away as why:
            return why.error
        finally:
            await session.aclose(end=True)
        said = await self._word(host, port)
        version, mode = _VERSION.search(said), _MODE.search(said)
        return ServerStatus(f"{host}:{port}", version[1] if version else "", mode[1] if mode else "", longest)

    async def _word(self, host: str, port: int) -> str:
        """What it answers to `srvr`, which it may not be allowed to."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._seconds):
                reader, writer = await asyncio.open_connection(host, port)
                try:
                    writer.write(b"srvr")
                    return (await reader.read()).decode(errors="replace")
                finally:
                    writer.close()
        return ""
