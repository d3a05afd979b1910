"""What a manager wants of a store for some names: decided on what it knows of them, carried out if that is still so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...errors import BackendError
from ...scripts import commands
from ...scripts.base import Call
from .channels import is_shared, number_of
from .engine import Outcome
from .held import LoadedBesideTransactions, grants, is_lock, lasts
from .loaded import Loaded, Row

UNREAD = -1
"""The version of a key that was not read: no row has it."""
FIRM = 8
"""Attempts that came too late, after which a plan's names are kept from who is urgent, too."""


class Known(NamedTuple):
    """What a manager knows of a key.

    Attributes:
        version: a number that its writer drew for it; 0 if there is no row.
        row: its row; None if there is none.
    """

    version: int
    row: Row | None


NONE = Known(0, None)


class Plan:
    """What is to become of the calls about some names that belong together.

    Args:
        calls: they, each with its number, in their order.
        names: what they are about.

    Attributes:
        calls, names: see above.
        tags: the numbers of the names, ascending.
        keys: all of theirs, with the versions that they were decided on; None for those that the decision did not read.
        attempts: how often it came too late.
        due: the loop's time before which it is not tried again.
        writes: what changes.
        messages: what is to be sent: channel and payload.
        hears: whether anyone listens on a channel, as the scripts were told; and whether a transaction has a lock, by
            the key of its state.
        outcomes: the answers, if it is carried out; empty if nothing was decided.
    """

    __slots__ = (
        "_owned",
        "_told",
        "attempts",
        "calls",
        "due",
        "hears",
        "keys",
        "messages",
        "names",
        "outcomes",
        "tags",
        "writes",
    )

    def __init__(self, calls: list[tuple[int, Call[Any]]], names: Iterable[str]) -> None:
        self.calls: list[tuple[int, Call[Any]]] = calls
        self.names: set[str] = set(names)
        self.tags: list[int] = sorted(map(number_of, self.names))
        self.keys: dict[str, int | None] = {key: UNREAD for _, call in calls for key in call.keys}
        self.attempts: int = 0
        self.due: float = 0.0
        self._told: dict[str, bool] = {}  # by the server, of what it hears
        self.writes: dict[str, Row | None] = {}
        self.messages: list[tuple[str, str]] = []
        self.hears: dict[str, bool] = {}
        self.outcomes: list[Outcome] = []
        self._owned = False

    @property
    def firm(self) -> bool:
        """Whether it came too late so often that nobody may pass it again: those who hand a name to each other without
        a pause would always be faster than who is far from the server.
        """
        return self.attempts >= FIRM

    @property
    def urgent(self) -> bool:
        """Whether others wait for it: it ends an owner, or is about one who has the name already; or it is firm."""
        return self.firm or self._owned or any(call.script.ends is not None for _, call in self.calls)

    @property
    def lazy(self) -> bool:
        """Whether a crash may forget it: it only ends owners, and nobody is granted or told anything. Then they have
        what they have for the rest of a ttl.
        """
        ends = bool(self.calls) and all(call.script.ends is not None for _, call in self.calls)
        return ends and not self.messages and not any(is_lock(key) and grants(row) for key, row in self.writes.items())

    def join(self, other: Plan) -> None:
        """Take over what another is about."""
        self.calls = sorted((*self.calls, *other.calls), key=lambda numbered: numbered[0])
        self.keys |= other.keys
        self._told |= other._told
        self.attempts, self.due = max(self.attempts, other.attempts), min(self.due, other.due)
        if not other.names <= self.names:
            self.names |= other.names
            self.tags = sorted({*self.tags, *other.tags})

    def ask(self) -> None:
        """Decide nothing: it comes back with what there is."""
        self.keys = dict.fromkeys(self.keys, UNREAD)
        self.writes, self.messages, self.hears, self.outcomes = {}, [], {}, []

    def decide(self, now_us: int, lag_us: int, known: Mapping[str, Known]) -> None:
        """Run the calls on what is known.

        Args:
            now_us: the store's time, or earlier.
            lag_us: by how much it may be later there.
            known: of its keys; what is missing is taken as not there.
        """
        found = {key: known.get(key, NONE) for key in self.keys}
        self.hears = {}
        rows = {key: one.row for key, one in found.items() if one.row is not None}
        held = [key for key, true in self._told.items() if true and is_lock(key) and not lasts(rows.get(key), now_us)]
        store = (
            LoadedBesideTransactions(now_us, rows, self._listeners, held)
            if held
            else Loaded(now_us, rows, self._listeners)
        )
        self._owned = any(_owned(rows, call) for _, call in self.calls)
        self.outcomes = [_answer(store, call) for _, call in self.calls]
        self.writes, self.messages = store.changes(), store.published
        self.keys = {key: one.version if key in store.touched else None for key, one in found.items()}
        for key in self.writes or self.keys:  # who only looks wants to know, too
            asks = is_lock(key) and (not self.writes or grants(self.writes[key]))
            if asks and not lasts(rows.get(key), now_us + lag_us):  # while a lease does, no transaction gets it
                self.hears[key] = False
        self.hears |= dict.fromkeys(held, True)

    def correct(self, misheard: frozenset[str]) -> None:
        """It came too late, or was told wrong of these channels and locks."""
        self.attempts += 1
        self._told |= {channel: not self.hears[channel] for channel in misheard}

    def _listeners(self, channel: str) -> int:
        if is_shared(channel):  # nobody counts those who wait for a name
            return 1
        return int(self.hears.setdefault(channel, self._told.get(channel, True)))  # a number: a bool is true in Lua


class Stale(NamedTuple):
    """Why a plan was not carried out.

    Attributes:
        known: its keys that there are.
        misheard: channels and locks of which the scripts were told wrong, whether anyone hears or has them.
        crowd: its place among those that came while a name was kept for another manager, and were told nothing else;
            0 if none was.
    """

    known: Mapping[str, Known]
    misheard: frozenset[str] = frozenset()
    crowd: int = 0


class Verdict(NamedTuple):
    """A store's answer to some plans.

    Attributes:
        now_us: its time.
        stale: those that were not carried out, by their places.
    """

    now_us: int
    stale: Mapping[int, Stale]


def plans_of(calls: Iterable[tuple[int, Call[Any]]], left: Iterable[Plan] = ()) -> list[Plan]:
    """Put calls about the same names into one plan, in their order.

    Args:
        calls: each with its number.
        left: plans that wait to be carried out: they take up what is about their names.
    """
    found = list(left)
    plan_of = {name: plan for plan in found for name in plan.names}
    for numbered in calls:
        plan = Plan([numbered], {tag_of(key) for key in numbered[1].keys})
        for other in {id(plan_of[name]): plan_of[name] for name in plan.names if name in plan_of}.values():
            other.join(plan)
            found.remove(other)
            plan = other
        found.append(plan)
        plan_of |= dict.fromkeys(plan.names, plan)
    return found


def tag_of(key: str) -> str:
    """What all keys of a name share, whatever its kind."""
    head, brace, rest = key.partition("{")
    return head.partition(":")[0] + brace + rest.partition("}")[0] if brace else key


def _owned(rows: Mapping[str, Row], call: Call[Any]) -> bool:
    """Whether who asks has the lock: it was passed on to it, or it holds it."""
    said = f'"owner":"{call.args[0]}"' if call.args else '"owner":'
    return any(is_lock(key) and key in rows and said in rows[key].value for key in call.keys)


def _answer(store: Loaded, call: Call[Any]) -> Outcome:
    try:
        return commands.answer(store, call)
    except Exception as error:  # one request must not end all others of the moment
        failure = BackendError(call.name, f"{call.doing} failed: {error}")
        failure.__cause__ = error
        return failure
