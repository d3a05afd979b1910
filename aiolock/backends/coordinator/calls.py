"""Requests about a name whose queue the store keeps: no script runs, and what they carry has names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from ...errors import BackendError
from ...scripts.base import Arg, Call, Ending, Part, Script
from ...scripts.bid import Bid


class Verb(Script[Any]):
    """What a request is called, where others have a script.

    Args:
        name: in errors.
    """

    __slots__ = ()

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.lua: str = ""
        self.sha: str = ""
        self.unacknowledged: Callable[[Any, BackendError], Any] | None = None
        self.ends: Callable[[Call[Any]], Call[Any] | None] | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A name, and how much of it is asked for.

    Attributes:
        path: of its queue.
        kind, name: see `Calls`.
        capacity: how much there is; a lock has 1.
        weight: how much an acquisition takes.
        shared: see `OwnPlace`.
    """

    path: str
    kind: str
    name: str
    capacity: int
    weight: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Enter:
    """See `Calls.acquire`."""

    on: Target
    bid: Bid

    @property
    def owner(self) -> str:
        """Who wants it."""
        return self.bid.owner


@dataclass(frozen=True, slots=True)
class Nest:
    """See `Calls.nest`."""

    on: Target
    owner: str
    ttl_ms: int
    depth: int


@dataclass(frozen=True, slots=True)
class Leave:
    """See `Calls.release`."""

    on: Target
    owner: str
    left: int
    ending: Ending
    tainted: bool


@dataclass(frozen=True, slots=True)
class Remove:
    """An end by force; of a certain fence, if that is not 0."""

    on: Target
    fence: int
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """The holder shall finish; the one with this id, if it is not empty."""

    on: Target
    holder: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """A view of the name; `waiting` is the owner whose rank matters."""

    on: Target
    waiting: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class See:
    """A view of the name, its holders and its queue."""

    on: Target
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Keep:
    """Renewals: owners, each with its ttl in ms, 0 only to look."""

    wants: tuple[tuple[str, int], ...]
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Stay:
    """Refreshes: owners that wait, each with the path of its queue."""

    wants: tuple[tuple[str, str], ...]
    owner: str = ""


Want: TypeAlias = Enter | Nest | Leave | Remove | Ask | Look | See | Keep | Stay


def _call(name: str, verb: Verb, want: Want) -> Call[Any]:
    # A backend that runs scripts never sees it, so ARGV may be what this one wants.
    return Call(name, verb, (), cast("tuple[Arg, ...]", (want,)))


def want_of(call: Call[Any]) -> Want:
    """Return what a call asks for."""
    return cast(Want, call.args[0])


ACQUIRE, NEST, RELEASE = Verb("acquire"), Verb("nest"), Verb("release")
FORCE, ASK, INFO = Verb("force_release"), Verb("request_release"), Verb("info")
RENEW, REFRESH = Verb("renew"), Verb("refresh")


def renew_many(parts: Iterable[Part]) -> Call[list[Any]]:
    """Make one request of many renewals."""
    return _call("", RENEW, Keep(tuple([(str(owner), int(ttl_ms)) for _, (owner, ttl_ms) in parts])))


def refresh_many(parts: Iterable[Part]) -> Call[list[Any]]:
    """Make one request of many refreshes."""
    return _call("", REFRESH, Stay(tuple([(str(owner), path) for (path,), (owner,) in parts])))


class CoordinatorCalls:
    """Requests about one name, for acquisitions of one weight. See `Calls`.

    Each acquisition has a place of its own in the store's queue, so a lock and a fair lock are the same.

    Args:
        target: the name, and how much of it.
    """

    free_channel = ""
    queues = True
    mark = ""
    ordered = True
    transfers = False
    one_refresh = False
    keeps = False
    renew_many: Callable[[Iterable[Part]], Call[list[Any]]] = staticmethod(renew_many)
    refresh_many: Callable[[Iterable[Part]], Call[list[Any]]] = staticmethod(refresh_many)

    def __init__(self, target: Target) -> None:
        self._on = target
        self.kind: str = target.kind
        self.name: str = target.name
        self.weight: int = target.weight
        self.names: tuple[str, ...] = (target.name,) if target.kind == "lock" else ()

    @property
    def shares(self) -> bool:
        """Whether others can have the name, too, and all of them have the fence of the last that had all of it."""
        return self._on.shared and self.weight < self._on.capacity

    def key_of(self, owner: str) -> str:
        """The key of an owner's place."""
        return f"{self._on.path}/{owner}"

    def weighing(self, weight: int) -> CoordinatorCalls:
        """Return the same requests, for acquisitions of another weight."""
        return CoordinatorCalls(replace(self._on, weight=weight))

    def acquire(self, bid: Bid) -> Call[Any]:
        """See `Calls`."""
        return _call(self.name, ACQUIRE, Enter(self._on, bid))

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[Any]:
        """See `Calls`."""
        return _call(self.name, NEST, Nest(self._on, owner, ttl_ms, depth))

    def refresh(self, bid: Bid) -> Part:
        """See `Calls`."""
        return Part((self._on.path,), (bid.owner,))

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        """See `Calls`."""
        return Part((self._on.path,), (owner, ttl_ms))

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[Any]:
        """See `Calls`."""
        return _call(self.name, RELEASE, Leave(self._on, owner, left, ending, tainted))

    def departure(self, manager: str) -> None:
        """See `Calls`: a place ends by itself, so nothing else says that a manager lives."""

    def force_release(self, fence: int = 0) -> Call[Any]:
        """End all holds; or that with this fence, if it is not 0."""
        return _call(self.name, FORCE, Remove(self._on, fence))

    def request_release(self, owner: str = "") -> Call[Any]:
        """Ask the holder to finish; only the one with this id, if it is not empty."""
        return _call(self.name, ASK, Ask(self._on, owner))

    def info(self, waiting: str = "") -> Call[Any]:
        """Look at the name; `waiting` is the owner whose rank is wanted."""
        return _call(self.name, INFO, Look(self._on, waiting))

    def look(self) -> Call[Any]:
        """See all that is known of the name."""
        return _call(self.name, INFO, See(self._on))
