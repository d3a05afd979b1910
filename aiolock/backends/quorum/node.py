"""One server of a quorum, reached through a backend of its own, which may not be open yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ...errors import AiolockError, BackendError, ConfigurationError
from ...log import Log
from ...scripts.base import Call
from ..base import Backend
from ..redis.backoff import Backoff

logger: Log = Log("aiolock.quorum")


class Node:
    """One of the servers.

    Args:
        number: its place in the list that the user gave, from 1.
        backend: the connection to it.

    Attributes:
        backend: as given.
        label: its name in errors and logs.
        ready: the backend was opened, to a server of its own: from then on it looks after its connection itself.
        failure: why it is not ready.
        suspect: it failed, or did not answer in time, when last asked: a majority that has answered does not wait for
            it.
    """

    def __init__(self, number: int, backend: Backend) -> None:
        address = getattr(backend, "address", "")
        self.backend: Backend = backend
        self.label: str = f"node {number} ({address})" if address else f"node {number}"
        self.forget()

    def forget(self) -> None:
        """Begin again."""
        self._connected = False
        self.ready: bool = False
        self.suspect: bool = False
        self.failure: AiolockError | None = None

    async def open(
        self,
        timeout: float,
        reconnected: Callable[[], None],
        news: Callable[[Node], None],
        twin: Callable[[Node], ConfigurationError | None],
        needed: Callable[[], bool] | None,
    ) -> None:
        """Connect, however long it takes; `news` is told of each failure and of the success.

        Args:
            timeout: seconds for one attempt.
            reconnected: see `Backend.open`.
            news: gets this node.
            twin: says whether another node is the same server; then this one is not used.
            needed: see `Backend.open`.
        """
        backoff = Backoff()
        backoff.next()  # the attempt below is the first one
        while not self.ready:
            try:
                await self.aclose()  # to a server that is already in the quorum
                await self.backend.open(timeout=timeout, reconnected=reconnected, needed=needed)
                self._connected = True
                failure = twin(self)
                if failure is not None:
                    raise failure
                self.ready = True
                self.failure = None
            except AiolockError as error:
                if self.failure is None:
                    logger.warning("%s of the quorum is not connected: %s", self.label, error)
                self.failure = error
            news(self)
            if not self.ready:
                await asyncio.sleep(backoff.next())

    @property
    def unreachable(self) -> AiolockError | None:
        """Why the server cannot be reached at the moment; None if it can, for all that is known."""
        return self.backend.unreachable if self.ready else self.failure

    @property
    def run_id(self) -> str:
        """The server's run_id, if it has one."""
        run_id: str = getattr(self.backend, "run_id", "")
        return run_id

    def post(self, call: Call[Any]) -> None:
        """Write `call` there; it fails at once until the node has been connected."""
        if self.ready:
            self.backend.post(call)
            return
        failure = BackendError(call.name, str(self.failure or "it is not connected yet"), transient=True)
        asyncio.get_running_loop().call_soon(call.end, failure)

    async def aclose(self) -> None:
        """Close, if it is open."""
        if self._connected:
            self.ready = self._connected = False
            await self.backend.aclose()
