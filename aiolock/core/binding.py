"""Where and when you can use a manager: its loop, process and thread, and its identity there."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import threading
from typing import ClassVar

from ..errors import AiolockError, BackendError, ConfigurationError
from ..identity import identity
from ..owner import compose, manager_of, own_part


class Process:
    """One process; `Process.current` is another one after a fork. Looking there costs no system call."""

    __slots__ = ()

    current: ClassVar[Process]


def _begin() -> None:
    Process.current = Process()


_begin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)


class Binding:
    """From a manager's entry to the end of its closing.

    Args:
        name: the manager's; empty if it has none.

    Attributes:
        name: as given.
        id: the manager's identity, new with each entry.
        holder: who it is, for people; see `identity`.
        closing: no task may start anything more.
        loop: the loop it is bound to; None before entry and after closing.
        awaited: why the manager is open without a server, which it goes on looking for; None if it is not.
        process: the one that entered it last.
    """

    __slots__ = (
        "_entered",
        "_owners",
        "_thread",
        "_was_bound",
        "awaited",
        "closing",
        "holder",
        "id",
        "loop",
        "name",
        "process",
    )

    def __init__(self, name: str = "") -> None:
        self.name: str = name
        self.loop: asyncio.AbstractEventLoop | None = None
        self.id: str = ""
        self.holder: str = ""
        self.closing: bool = False
        self.awaited: AiolockError | None = None
        self._entered: asyncio.AbstractEventLoop | None = None  # the loop, once locks can be used
        self.process: Process | None = None
        self._thread = 0
        self._owners = itertools.count(1)
        self._was_bound = False

    @property
    def bound(self) -> bool:
        """True between entry and the end of closing."""
        return self.loop is not None

    @property
    def usable(self) -> bool:
        """Bound, and not inherited by a fork: a child must not use its parent's connection."""
        return self.loop is not None and self.process is Process.current

    @property
    def inherited(self) -> bool:
        """Bound in the process that this one was forked from: what it holds, this one does not."""
        return self.loop is not None and self.process is not Process.current

    @property
    def ready(self) -> bool:
        """Whether locks can be used, in this process."""
        return self._entered is not None and self.usable and not self.closing

    def begin(self) -> None:
        """Draw a fresh identity for the running loop and this process."""
        self.loop = asyncio.get_running_loop()
        self.process = Process.current
        self._thread = threading.get_ident()
        self._was_bound = True
        self.id = secrets.token_hex(16)
        self.holder = identity(self.name)
        self.closing = False
        self._owners = itertools.count(1)

    def entered(self) -> None:
        """The manager has entered: its locks can be used from now on."""
        self._entered, self.awaited = self.loop, None

    def end(self) -> None:
        """Forget the loop."""
        self.loop = self._entered = self.awaited = None

    def new_owner(self, mark: str, ttl_ms: int = 0, liveness_ms: int = 0, priority: int = 0) -> str:
        """Return an owner id that was never used.

        Args:
            mark: tells scripts how its kind waits.
            ttl_ms: for how long it wants a name: for no longer may a queue grant it one before it asks.
            liveness_ms: for how long its process counts as alive, if it queues: that is the other limit.
            priority: how far ahead of others it queues.
        """
        most_ms = ttl_ms if ttl_ms < liveness_ms else 0
        return compose(self.id, mark, next(self._owners), priority if liveness_ms else 0, most_ms)

    def is_own(self, owner: str) -> bool:
        """Whether the owner belongs to the one queue of this process with its name."""
        return manager_of(owner) == self.id and own_part(owner).isdecimal()

    def check(self, name: str) -> None:
        """Raise unless locks can be used here and now.

        Raises:
            ConfigurationError: before entry, after closing, in another thread or loop, or in a forked child.
            BackendError: it is open, but has not reached the server yet.
        """
        loop = self._entered
        try:
            here = loop is not None and asyncio.get_running_loop() is loop
        except RuntimeError:  # no loop runs in this thread
            here = False
        if here and self.process is Process.current and not self.closing:
            return
        if self.loop is None:
            when = "after its manager was closed" if self._was_bound else "before its manager was entered"
            raise ConfigurationError(name, f"{_this(name)} was used {when}: use it inside `async with manager:`")
        self.check_process(name)
        if self.awaited is not None and not self.closing:
            why, transient = self.awaited, isinstance(self.awaited, BackendError) and self.awaited.transient
            text = f"{_this(name)} cannot be used before its manager is connected, which it keeps trying: {why}"
            raise BackendError(name, text, transient) from why
        if loop is None:
            raise ConfigurationError(
                name, f"{_this(name)} was used while its manager was still being entered: use it afterwards"
            )
        if not here:
            raise ConfigurationError(
                name, f"{_this(name)} was used in another thread or on another event loop than its manager's: "
                "use one manager per loop; from another thread call asyncio.run_coroutine_threadsafe(…, loop)"
            )  # fmt: skip
        raise ConfigurationError(
            name, f"{_this(name)} was used while its manager is closing: finish before you close it"
        )

    def check_process(self, name: str) -> None:
        """Raise in a forked child: connection and leases are its parent's, which goes on with them.

        Raises:
            ConfigurationError: this process did not enter the manager.
        """
        if self.inherited:
            raise ConfigurationError(
                name, f"{_this(name)} was used in a forked child of the process that entered its manager: "
                "enter the manager after the fork (for example in the worker's lifespan); a ticket moves a lease there"
            )  # fmt: skip

    def check_here(self, name: str, remedy: str) -> None:
        """Raise where nothing may be changed: outside the manager's loop, and in a forked child.

        Args:
            name: the lock's.
            remedy: what to call instead in another thread; `loop` is the manager's.

        Raises:
            ConfigurationError: another thread, loop or process. Never after the manager is closed.
        """
        if self.loop is None:
            return
        self.check_process(name)
        try:
            here = asyncio.get_running_loop() is self.loop
        except RuntimeError:  # in the loop's own thread that is between two runs of it
            here = threading.get_ident() == self._thread
        if not here:
            raise ConfigurationError(
                name, f"{_this(name)} was used in another thread or on another event loop than its manager's: "
                f"call {remedy} there"
            )  # fmt: skip


def _this(name: str) -> str:
    return f"lock {name!r}" if name else "the manager"
