"""What a primitive is given: backend, subscriptions, scheduler, clock. Breaks the cycle with the manager."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ..backends.base import Backend
from ..clock import Clock, format_seconds
from ..errors import BackendError, ConfigurationError
from ..log import Log
from ..scripts.base import MAX_FENCE, Call
from ..scripts.keys import Keys
from ..scripts.outcomes import Granted
from .hold import Hold
from .holds import Holds
from .limit import Limit
from .patience import Patience
from .policy import milliseconds
from .poll import Poll
from .renewals import Renewals
from .scheduler import Scheduler
from .subscriptions import Subscriptions

R = TypeVar("R")

AHEAD_US = 24 * 3600 * 10**6
"""Microseconds by which a fence in a message may be ahead of the clock, and of all answers: anybody can publish."""

logger: Log = Log("aiolock.manager")


@dataclass(frozen=True, slots=True)
class Limits:
    """The manager's own numbers; durations in seconds.

    Attributes:
        request_timeout: how long one answer of the server may take.
        recheck: how long a waiter sleeps at most before it asks again; in a queue that the server keeps, it asks each
            third of `liveness` anyway.
        handoff_limit: how often in one turn a lock is handed on inside the process while other processes wait; on a
            quorum, how often in a row before a pause.
        liveness: how long a process that waits in a queue kept by the server counts as alive without a sign of life.
        liveness_ms: the same as the wire has it.
    """

    request_timeout: float
    recheck: float
    handoff_limit: int
    liveness: float
    liveness_ms: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "liveness_ms", milliseconds(self.liveness))


class Closable(Protocol):
    """A gate, as the closing manager sees it."""

    def signal(self) -> None:
        """The lock may be free."""

    def close(self) -> None:
        """Turn away whoever waits."""

    def occupied(self) -> bool:
        """Some task waits."""


class WaitingEntry(Protocol):
    """An entry that asks for a name or waits for it, as messages see it."""

    @property
    def queue_number(self) -> int:
        """Its number in the queue, where the client keeps it."""

    @property
    def ttl_ms(self) -> int:
        """For how long it wants the name."""

    def told(self, outcome: Granted, provisional: bool, serial: int = 0) -> None:
        """A message says that it was granted."""

    def verify(self) -> None:
        """Ask the server at once: a message may have been missed."""


class Runtime:
    """Bound to a loop and a process by the manager on entry, and unbound when it is closed.

    Args:
        backend: the server.
        namespace: prefix of all keys.
        limits: the manager's numbers.
        waiting: how to wait without messages; None to be told.
    """

    def __init__(self, backend: Backend, namespace: str, limits: Limits, waiting: Poll | None = None) -> None:
        self.backend = backend
        self._waiting = waiting
        self.poll: Poll | None = waiting
        self.clock: Clock = backend.clock
        self.limits = limits
        self.keys: Keys = Keys(namespace, backend.db)
        self._new_scheduler()
        self.subscriptions: Subscriptions = Subscriptions(backend, self.fall_back)
        self.gates: dict[tuple[str, str], Closable] = {}
        self.holds: dict[str, Hold] = {}  # by owner
        self.queue_entries: dict[str, WaitingEntry] = {}  # by owner: who waits in a queue kept by the server
        self.floor: int = 0  # the highest fence heard of, on any name
        self._answered = 0  # the highest that a server answered
        self._warned = False
        self.id: str = ""
        self.holder: str = ""  # host:pid, for people
        self.closing: bool = False
        self.context: contextvars.Context = contextvars.Context()  # of callbacks that outlive the task that set them
        self.tasks: Holds = Holds(self.context)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._thread = 0
        self._owners = itertools.count(1)
        self._refresh_at = -math.inf
        self._was_bound = False
        self.draining: asyncio.Future[None] | None = None  # closing waits for who is still inside
        self._closer: asyncio.Task[object] | None = None

    @property
    def bound(self) -> bool:
        """True between entry and the end of closing."""
        return self._loop is not None

    @property
    def usable(self) -> bool:
        """Bound, and not inherited by a fork: what the connection of a parent process must not be used for."""
        return self._loop is not None and self._pid == os.getpid()

    def bind(self) -> None:
        """Draw a fresh identity for the running loop and this process."""
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._was_bound = True
        self.id = secrets.token_hex(16)
        self.holder = f"{socket.gethostname()}:{self._pid}"
        self.closing = False
        self.poll = self._waiting
        self.subscriptions = Subscriptions(self.backend, self.fall_back)
        self._new_scheduler()
        self._owners = itertools.count(1)

    def _new_scheduler(self) -> None:
        self.scheduler: Scheduler = Scheduler(self.clock, Renewals(self.backend).write)
        self.patience: Patience = Patience(self.clock, self.scheduler, self.limits.request_timeout)

    def unbind(self) -> None:
        """Forget the loop; nothing is left of it."""
        self._loop = None
        self.gates.clear()
        self.holds.clear()
        self.queue_entries.clear()

    def check(self, name: str) -> None:
        """Raise unless locks can be used here and now.

        Raises:
            ConfigurationError: before entry, after closing, in another thread or loop, or in a forked child.
        """
        loop = self._loop
        try:
            here = loop is not None and asyncio.get_running_loop() is loop
        except RuntimeError:  # none runs in this thread
            here = False
        if here and self._pid == os.getpid() and not self.closing:
            return
        if loop is None:
            when = "after its manager was closed" if self._was_bound else "before its manager was entered"
            raise ConfigurationError(name, f"{_this(name)} was used {when}: use it inside `async with manager:`")
        self.check_process(name)
        if not here:
            raise ConfigurationError(
                name, f"{_this(name)} was used in another thread or on another event loop than its manager's: "
                "one manager a loop; from another thread call asyncio.run_coroutine_threadsafe(…, loop)"
            )  # fmt: skip
        raise ConfigurationError(
            name, f"{_this(name)} was used while its manager is closing: finish before you close it"
        )

    def need_one_server(self, name: str, what: str) -> None:
        """Raise for what a quorum does not offer; `what` in the plural, such as "fair locks".

        Raises:
            ConfigurationError: the locks are held on a quorum.
        """
        if self.backend.nodes > 1:
            raise ConfigurationError(
                name, f"{what} are not offered by a quorum, as for {name!r}: use a LockManager of one server"
            )  # fmt: skip

    def check_process(self, name: str) -> None:
        """Raise in a forked child, whose connection is its parent's.

        Raises:
            ConfigurationError: this process did not enter the manager.
        """
        if self._loop is not None and self._pid != os.getpid():
            raise ConfigurationError(
                name, f"{_this(name)} was used in a forked child of the process that entered its manager: "
                "enter the manager after the fork (for example in the worker's lifespan)"
            )  # fmt: skip

    def check_here(self, name: str, remedy: str) -> None:
        """Raise where nothing may be changed: elsewhere than on the manager's loop, and in a forked child.

        Args:
            name: the lock's.
            remedy: what to call instead in another thread; `loop` is the manager's.

        Raises:
            ConfigurationError: another thread, loop or process. Never once the manager is closed.
        """
        if self._loop is None:
            return
        self.check_process(name)
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # in the loop's own thread that is between two runs of it
            here = threading.get_ident() == self._thread
        if not here:
            raise ConfigurationError(
                name, f"{_this(name)} was used in another thread or on another event loop than its manager's: "
                f"call {remedy} there"
            )  # fmt: skip

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop it is bound to."""
        return self._loop

    def new_owner(self, mark: str) -> str:
        """An owner id that was never used; by its mark scripts know how its kind waits."""
        return f"{self.id}:{mark}{next(self._owners)}"

    def is_own(self, owner: str) -> bool:
        """The owner was of the one queue of this process that has its name."""
        manager, _, number = owner.partition(":")
        return manager == self.id and number.isdecimal()

    def fall_back(self, refusal: BackendError) -> None:
        """The server will not let us subscribe: poll from now on, until the manager is entered again."""
        if self.poll is None and not self.closing:
            self.poll = Poll()
            logger.warning("not told of releases, so waiters poll from now on, as with waiting=Poll(): %s", refusal)

    def next_refresh(self, earliest: float, latest: float) -> float:
        """A clock time between these two at which queue entries of this manager are refreshed together."""
        if not earliest <= self._refresh_at <= latest:
            self._refresh_at = latest
        return self._refresh_at

    def heard(self, fence: int) -> None:
        """The server answered so: every later grant that this manager asks for gets a higher fence."""
        if self._answered < fence < MAX_FENCE:
            self._answered = fence
            if fence > self.floor:
                self.floor = fence

    def told(self, fence: str) -> int | None:
        """As `heard`, of a message: the fence, if it can be one."""
        number = whole(fence)
        ahead = number is None or number > self._answered + AHEAD_US
        if number is None or (ahead and number > time.time_ns() // 1000 + AHEAD_US):
            self.doubt()
            return None
        if number > self.floor:
            self.floor = number
        return number

    def doubt(self) -> None:
        """Somebody else publishes on our channels: say so, once."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "a message on a channel of namespace %r makes no sense, and is ignored like all others of its kind: "
                "does anybody else publish there?", self.keys.namespace,
            )  # fmt: skip

    def verify_queue_entries(self) -> None:
        """Ask about every entry in the servers' queues: something may have been missed."""
        for entry in sorted(
            self.queue_entries.values(), key=lambda entry: entry.queue_number
        ):  # in the order of their turns
            entry.verify()

    async def drained(self) -> None:
        """Wait until no other task waits or is inside a guarded block; `request_timeout` at most."""
        self._closer = asyncio.current_task()
        drained = self.draining = asyncio.get_running_loop().create_future()
        limit = self.limit(drained, self.clock.now() + self.limits.request_timeout, TimeoutError)
        self.progress()
        try:
            await drained
        except TimeoutError:
            logger.warning("closing while guarded blocks still run: their locks stay until they expire")
        finally:
            self.scheduler.forget(limit)
            self.draining = None

    def progress(self) -> None:
        """Somebody left a gate: that may have been the last one for whom closing waits."""
        drained = self.draining
        if drained is not None and not drained.done() and not self.occupied:
            drained.set_result(None)

    @property
    def occupied(self) -> bool:
        """Some task other than the one that closes waits, or is inside a guarded block."""
        if any(gate.occupied() for gate in self.gates.values()):
            return True
        return any(hold.guarded(self._closer) for hold in self.holds.values())

    def limit(self, reply: asyncio.Future[R], due: float, error: Callable[[], BaseException]) -> Limit[R]:
        """Fail `reply` with `error()` if it is not there at clock time `due`; to be forgotten when it came."""
        limit = Limit(reply, error)
        self.scheduler.schedule(limit, due)
        return limit

    def unanswered(self, name: str, doing: str) -> BackendError:
        """The error for a request that took longer than `request_timeout`."""
        patience, known = self.limits.request_timeout, self.backend.unreachable
        error = BackendError(
            name,
            f"{doing} lock {name!r} got no answer within {format_seconds(patience)} s: "
            f"{'is Redis reachable?' if known is None else known}",
            transient=known is None or (isinstance(known, BackendError) and known.transient),
        )
        error.__cause__ = known
        return error

    async def ask(self, call: Call[R], doing: str) -> R:
        """Run `call` and wait for its answer, `request_timeout` at most.

        Raises:
            BackendError: unreachable or refused.

        Cancellation: what was written stays written. Cost: one round trip.
        """
        self.check(call.name)
        reply = self.backend.run(call)
        patience = self.clock.now() + self.limits.request_timeout
        limit = self.limit(reply, patience, lambda: self.unanswered(call.name, doing))
        try:
            return await reply
        finally:
            self.scheduler.forget(limit)
            call.withdraw()


def whole(text: str) -> int | None:
    """The number that Lua has written, if it is one that Lua counts exactly."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 17 else MAX_FENCE
    return number if number < MAX_FENCE else None


def _this(name: str) -> str:
    return f"lock {name!r}" if name else "the manager"
