"""A user's credential provider: asked for each connection, and heard if it streams new credentials meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from ...errors import AiolockError, BackendError
from ...log import Log

logger: Log = Log("aiolock.redis")


class Authenticate(NamedTuple):
    """To be written on an open connection."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "Authenticate(…)"


Renewed = Callable[[Authenticate], None]


class Credentials:
    """Stands in for the provider of one backend towards redis-py; names it if it fails.

    Args:
        provider: a `CredentialProvider` of redis-py or valkey-py.
        pool: that of the client with the provider; None if it has none that re-authenticates.
    """

    def __init__(self, provider: Any, pool: Any = None) -> None:
        self._provider = provider
        self._stream: _Stream | None = None
        if callable(getattr(provider, "on_next", None)):
            self._stream = _STREAMS.setdefault(provider, _Stream())
            if callable(getattr(pool, "re_auth_callback", None)):
                self._stream.pools.add(pool)

    def listen(self, renewed: Renewed) -> None:
        """Tell `renewed` of new credentials on the running loop, until `leave`."""
        if self._stream is not None:
            self._stream.listeners[self] = asyncio.get_running_loop(), renewed

    def leave(self) -> None:
        """Tell no more."""
        if self._stream is not None:
            self._stream.listeners.pop(self, None)

    def get_credentials(self) -> object:
        """Return user and password, as redis-py wants them."""
        try:
            self._hear()
            return self._provider.get_credentials()
        except Exception as error:
            raise self._failed(error) from error

    async def get_credentials_async(self) -> object:
        """Return the same."""
        try:
            self._hear()
            return await self._provider.get_credentials_async()
        except Exception as error:
            raise self._failed(error) from error

    def _hear(self) -> None:
        # Each time: a provider of redis-py tells only whoever asked last, as each new client does.
        if self._stream is not None:
            self._provider.on_next(self._stream.next)
            self._provider.on_error(self._stream.failed)

    def _failed(self, error: Exception) -> AiolockError:
        # Its text may quote a password.
        return BackendError(
            "", f"the credential provider {type(self._provider).__name__} raised {type(error).__name__}"
        )


class _Stream:
    """What comes from one provider, for all backends and clients that share it.

    Attributes:
        listeners: what to tell, and on which loop.
        pools: of the clients that the backends were made with; they would no longer be told.
    """

    def __init__(self) -> None:
        self.listeners: dict[Credentials, tuple[asyncio.AbstractEventLoop, Renewed]] = {}
        self.pools: WeakSet[Any] = WeakSet()

    def next(self, token: Any) -> _Told:
        """Take new credentials, from any thread."""
        renewal = Authenticate(token.try_get("oid"), token.get_value())
        for loop, renewed in list(self.listeners.values()):
            with contextlib.suppress(RuntimeError):  # its loop is closed
                loop.call_soon_threadsafe(renewed, renewal)
        return _Told(self.pools, token)

    def failed(self, error: Exception) -> _Told:
        """The provider got no new ones: the old ones may still do, and the next connection asks again."""
        # Its text may quote a password.
        logger.warning("the credential provider could not renew its credentials (%s)", type(error).__name__)
        return _Told((), None)


class _Told:
    """Await it, or do not: providers differ. Awaited, the clients' own connections re-authenticate, too."""

    def __init__(self, pools: Any, token: Any) -> None:
        self._pools = pools
        self._token = token

    def __await__(self) -> Generator[Any, None, None]:
        for pool in list(self._pools):
            yield from pool.re_auth_callback(self._token).__await__()


_STREAMS: WeakKeyDictionary[Any, _Stream] = WeakKeyDictionary()
