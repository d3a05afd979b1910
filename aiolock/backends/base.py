"""What a primitive may ask of a server: run scripts, deliver messages. A backend knows no primitive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from ..clock import Clock
from ..errors import AiolockError, BackendError, ConfigurationError
from ..record import Record
from ..scripts.base import Call

if TYPE_CHECKING:
    from .turnstile import Turnstile

R = TypeVar("R")

NO_MESSAGES = "If a proxy or server without pub/sub hangs up on SUBSCRIBE, create the manager with waiting=Poll()"
"""What errors say if no subscription was ever confirmed."""

Wake = Callable[[str | BackendError | None], None]
"""Called with a message's payload; with None when the subscription is confirmed, or confirmed again after a reconnect,
and any message may have been missed; or with an error if it is refused after a reconnect, and has ended.
"""


def nothing(*_: object) -> None:
    """Whoever need not be told."""


class Abilities(Record):
    """What a backend can do beyond running the lock's scripts.

    Attributes:
        queues: one server decides, and keeps a queue for each name. Otherwise several decide and waiters race; there is
            only the lock, and no transfer.
        notice: seconds after a promotion within which a holder hears of it, if its renewals may not have reached the
            new master; 0.0 if they have, or if there is no such bound.
        messages: it delivers messages; otherwise waiters ask again and again.
        store: what it is called in errors.
        requests: returns requests about a name, with the methods of the scripts' own, by the kind of the primitive, the
            name, how much of it there is (a lock has 1), and how much an acquisition takes. None if scripts run.
            Otherwise the store keeps queues itself: there are locks, fair locks, read-write locks and semaphores, and
            nothing else.
        turnstile: where processes line up that would race; None if they do not, or race anyway.
    """

    queues: bool = True
    notice: float = 0.0
    messages: bool = True
    store: str = "Redis"
    requests: Callable[[str, str, int, int], Any] | None = None
    turnstile: Turnstile | None = None

    def need_redis(self, name: str, what: str) -> None:
        """Raise if the locks are not on a Redis server; `what` needs one, in the plural, such as "guarded writes".

        Raises:
            ConfigurationError: they are elsewhere.
        """
        if self.store != "Redis":
            raise ConfigurationError(name, f"{what} need a Redis server, and {name!r} is kept in {self.store}")

    def need_masters(self, what: str) -> None:
        """Raise unless one Redis server at a time has what a name has; `what` needs that, in the plural, such as
        "Redisson's locks".

        Raises:
            ConfigurationError: a quorum has it, or another store.
        """
        if self.store != "Redis" or not self.queues:
            raise ConfigurationError(
                "",
                f"{what} need a manager of one Redis server, of a cluster, or of Sentinels: no quorum or other store",
            )

    def need_queues(self, name: str, what: str) -> None:
        """Raise if there are no queues; `what` needs them, in the plural, such as "fair locks".

        Raises:
            ConfigurationError: the locks are held on a quorum.
        """
        if not self.queues:
            raise ConfigurationError(
                name, f"{what} are not offered by a quorum, as for {name!r}: use a LockManager of one server"
            )

    def need_scripts(self, name: str, what: str) -> None:
        """Raise unless one server runs scripts; `what` needs that, in the plural, such as "latches".

        Raises:
            ConfigurationError: the locks are held on a quorum, or kept in a store with queues of its own.
        """
        self.need_queues(name, what)
        if self.requests is not None:
            raise ConfigurationError(
                name, f"{what} are not offered on {self.store}, as for {name!r}: use a LockManager of a Redis server"
            )


@runtime_checkable
class Backend(Protocol):
    """One server, or a quorum of them, seen from one event loop at a time. What has a body here is for one that has no
    slots.

    Attributes:
        clock: the clock by which the backend stamps what it sends.
        db: the database's number, 0 if there are none.
        abilities: what it can do beyond running the lock's scripts.
        unreachable: why the server cannot be reached at the moment, as the last attempt found; None if it can, or if
            nothing is known. On a quorum: why no majority can; on a cluster: why one of its masters cannot.
    """

    clock: Clock
    db: int
    abilities: Abilities = Abilities()

    @property
    def unreachable(self) -> AiolockError | None:
        return None

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        """Connect, on the running loop. You can open a closed backend again, on another loop too.

        Args:
            timeout: seconds for everything.
            reconnected: called each time a lost connection was replaced, after the unanswered calls were written again
                and before the subscriptions are confirmed again.
            needed: whether anything is held or waited for: asked now and then by a backend that then looks after its
                servers. None: always.

        Raises:
            BackendError: unreachable, refused, or not a suitable server.
            ConfigurationError: the server is too old.

        Cancellation: the connection is closed.
        """

    def slot(self, key: str) -> int:
        """The slot of `key` in a cluster, the same for all processes, always; 0 without a cluster. One request can
        have only keys of one slot.
        """
        return 0

    def away(self, key: str) -> AiolockError | None:
        """Why the server that has `key` cannot be reached: in a cluster only one of them may be unreachable."""
        return self.unreachable

    def run(self, call: Call[R]) -> asyncio.Future[R]:
        """Write `call` now, in the order of these calls: awaiting only observes the reply.

        While there is no connection the call waits for one; after `aclose` it fails at once. The future fails only with
        `BackendError`; cancelling it does not take the request back.
        """
        future = call.future = asyncio.get_running_loop().create_future()
        self.write(call)
        return future

    def write(self, call: Call[Any]) -> None:
        """Do the same as `run`, without a future: `call.settle` gets the reply."""
        if call.parts:
            from .spread import spread  # with the multi lock

            spread(call, self.post)
        else:
            self.post(call)

    def post(self, call: Call[Any]) -> None:
        """Do the same as `write`, for a call without parts."""

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        """Listen on `channel` until `unsubscribe`; one listener per channel.

        The future is done once the server has confirmed (after `wake(None)`), or fails with `BackendError` if it
        refuses.
        """

    def unsubscribe(self, channel: str) -> None:
        """Stop listening; a message that is on its way is dropped."""

    async def aclose(self) -> None:
        """Write what is pending, wait a bounded time for the replies, and close.

        Cancellation: closes at once; what was written stays written.
        """
