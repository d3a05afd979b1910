"""The library, broken on purpose: histories must find each of these. Most cannot be seen without a wire."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from aiolock.backends.quorum.members import Members
from aiolock.backends.redis.session import Session
from aiolock.backends.sentinel.witness import Witness
from aiolock.backends.sqlite.link import Link
from aiolock.backends.sqlite.users import Users
from aiolock.recipes.joining import Joining
from aiolock.scripts import latch, lock, queue
from aiolock.scripts.base import Script
from aiolock.scripts.keys import Keys
from aiolock.scripts.multi import MultiCalls
from aiolock.scripts.multi.spread import SpreadCalls
from tests.simulation.mutations import kept_forgotten, reservation_ends_with_its_attempt

Patch = pytest.MonkeyPatch


def reply_of_another(patch: Patch) -> None:
    """Now and then two answers of one connection are taken for each other's."""
    receive = Session._receive

    def swapped(self: Session, reply: object) -> None:
        if len(self._pending) > 1 and random.random() < 0.05:
            self._pending.rotate(-1)
        receive(self, reply)

    patch.setattr(Session, "_receive", swapped)


def role_unasked(patch: Patch) -> None:
    """A master that Sentinels replace grants until it is told that it is a replica, and that counts."""
    patch.setattr(Witness, "undecided", lambda self, reply: False)


def minority(patch: Patch) -> None:
    """A quorum grants with one node less than a majority."""
    init = Members.__init__

    def fewer(self: Members, *args: Any) -> None:
        init(self, *args)
        self.quorum -= 1

    patch.setattr(Members, "__init__", fewer)


def fence_repeated(patch: Patch) -> None:
    """A grant gets the fence of the one before."""
    for script in (lock.ACQUIRE, lock.TRANSFER, lock.RELEASE, lock.REFRESH):
        _rewrite(patch, script, "math.max(known + 1, time[1] * 1000000 + time[2])", "math.max(known, 1)")
    _rewrite(patch, lock.ACQUIRE, "local least = math.max(last, floor) + 1", "local least = math.max(last, floor, 1)")
    _rewrite(patch, lock.ACQUIRE, "local is_now = time[1] * 1000000 + time[2] > least", "local is_now = false")


def release_of_any_holder(patch: Patch) -> None:
    """A release ends the hold of whoever has it."""
    _rewrite(patch, lock.RELEASE, "if name.owner ~= owner or", "if name.owner == '' or")


def room_for_one_more(patch: Patch) -> None:
    """The queue lets one in that does not fit."""
    for script in (queue.ACQUIRE, queue.RELEASE, queue.RENEW):
        _rewrite(patch, script, "state.used + weight > state.capacity", "state.used + weight > state.capacity + 1")


def count_repeated(patch: Patch) -> None:
    """A latch counts the same `by` again."""
    _rewrite(patch, latch.COUNT_DOWN, "if left > 0 and not latch[4] then", "if left > 0 then")


def _rewrite(patch: Patch, script: Script[Any], old: str, new: str) -> None:
    assert old in script.lua, f"{script} does not say {old!r}"
    patch.setattr(script, "lua", script.lua.replace(old, new))
    patch.setattr(script, "sha", hashlib.sha1(script.lua.encode(), usedforsecurity=False).hexdigest())


def slots_shared(patch: Patch) -> None:
    """Two holders of a semaphore have the same permit."""
    for script in (queue.ACQUIRE, queue.REFRESH):
        _rewrite(patch, script, "not taken[slot] and slot or nil", "slot")


def pieces_elsewhere(patch: Patch) -> None:
    """A multi lock takes the names of its first piece, and others than it should in the rest."""
    init = SpreadCalls.__init__

    def other(self: SpreadCalls, keys: Keys, names: Sequence[str], groups: Sequence[MultiCalls]) -> None:
        others = [MultiCalls(keys, [f"{name}~" for name in group.names]) for group in groups[1:]]
        init(self, keys, names, [groups[0], *others])

    patch.setattr(SpreadCalls, "__init__", other)


def outcome_of_an_ended_call(patch: Patch) -> None:
    """A call gets the result of one of its process that was over before it began."""
    tell, follow, told = Joining.tell, Joining.follow, list[int]()

    def heard(self: Joining, fence: int, *args: Any) -> None:
        told.append(fence)
        tell(self, fence, *args)

    async def last(self: Joining, *how: Any) -> Any:
        seen = await self._ask(told[-1] if told else 0)
        return await follow(self, *how) if seen.text is None else self._told(seen.text)

    patch.setattr(Joining, "tell", heard)
    patch.setattr(Joining, "follow", last)


def boot_by_its_id(patch: Patch) -> None:
    """Whoever opens a file with another boot id takes it for a boot."""
    patch.setattr(Users, "any", lambda self: False)


def fork_unnoticed(patch: Patch) -> None:
    """A child takes its parent's connections for its own."""
    patch.setattr(Link, "_refuse_inherited", lambda self: None)


@dataclass(frozen=True)
class Case:
    """How a mutation is found.

    Attributes:
        mutation: what is broken.
        place: where.
        options: of the managers.
        uses: what workers do; empty for what they do anyway.
    """

    mutation: Callable[[Patch], None]
    place: str = "server"
    options: dict[str, Any] = field(default_factory=dict)
    uses: tuple[str, ...] = ()

    def break_it(self) -> None:
        """Break the library, for as long as the process lives."""
        self.mutation(pytest.MonkeyPatch())


CASES: dict[str, Case] = {
    "reply_of_another": Case(reply_of_another),
    "fence_repeated": Case(fence_repeated),
    "release_of_any_holder": Case(release_of_any_holder),
    "room_for_one_more": Case(room_for_one_more),
    "slots_shared": Case(slots_shared, uses=("permits", "permits", "permits", "lock")),
    "kept_forgotten": Case(kept_forgotten, uses=("kept", "kept", "lock")),
    "outcome_of_an_ended_call": Case(outcome_of_an_ended_call, uses=("joined", "joined", "lock")),
    "reservation_ends": Case(reservation_ends_with_its_attempt, uses=("jobs", "jobs", "jobs", "lock")),
    "pieces_elsewhere": Case(pieces_elsewhere, uses=("many", "many", "many", "many", "many")),
    "count_repeated": Case(count_repeated, uses=("latch", "latch", "lock")),
    "role_unasked": Case(role_unasked, "sentinel"),
    "minority": Case(minority, "quorum"),
    "boot_by_its_id": Case(boot_by_its_id, "file"),
    "fork_unnoticed": Case(fork_unnoticed, "file"),
}
