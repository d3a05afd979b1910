"""How anyone can look at a lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...owner import TASK, came_at, is_kept, manager_of, own_part
from ..bid import told
from ..keys import Keys
from ..view import Command, HolderInfo, NameView, WaiterInfo, number_of, pairs_of, seconds_since, short, text_of

FIELDS = ("version", "owner", "fence", "depth", "abandoned", "expires", "process")
"""What a lock's hash has that is looked at; see lock/state.lua."""
MOST = 1000
"""How many places of a queue are listed at most."""


class Sign(NamedTuple):
    """A manager's last heartbeat.

    Attributes:
        until: it counts as alive until then, in server milliseconds.
        process: its host and pid; "" if it did not say.
    """

    until: int
    process: str

    @classmethod
    def read(cls, text: str) -> Sign:
        """As alive.lua writes it; a `+` says that the manager listens."""
        until, _, process = text.partition(" ")
        return cls(int(until.rstrip("+")), process)


NO_SIGN = Sign(0, "")


class LockInspection:
    """Looks at one lock; implements `Inspection`.

    Args:
        keys: names the keys.
        name: the lock's.
        deep: also list the queue.
    """

    def __init__(self, keys: Keys, name: str, deep: bool) -> None:
        self._name = name
        self._deep = deep
        state, queue, alive = keys.of("lock", name).of_lock
        last = str(MOST - 1 if deep else 0)
        self.commands: Sequence[Command] = [
            ("HMGET", state, *FIELDS),
            ("ZCARD", queue),
            ("ZRANGE", queue, "0", last, "WITHSCORES"),
        ]
        if deep:
            self.commands = [*self.commands, ("HGETALL", alive)]

    def decode(self, replies: Sequence[object], now_us: int) -> NameView | None:
        """See `Inspection.decode`."""
        waiting, places = number_of(replies[1]), pairs_of(replies[2])
        kept = [text_of(value) for value in replies[0]] if isinstance(replies[0], list) else [""] * len(FIELDS)
        version, owner, fence, depth, abandoned, expires, metadata = kept
        if not version and not waiting:
            return None
        ttl = int(expires or 0) - now_us // 1000
        live, (process, more) = ttl > 0, told(metadata)
        signs = {manager: Sign.read(text) for manager, text in pairs_of(replies[3])} if self._deep else {}
        marked = depth != "0" if owner else abandoned == "1"
        taken = "held" if depth != "0" else "kept" if is_kept(owner) else "granted"
        state = taken if live else "abandoned" if marked else "free"
        since = seconds_since(int(fence or 0), now_us) if live else None
        holder = HolderInfo(short(owner), process, more, int(fence or 0), int(depth or 0), 1, max(0, ttl) / 1000, since)
        return NameView(
            "lock",
            self._name,
            state,
            process if live else "",
            more if live else None,
            holder.fence,
            holder.ttl if live else None,
            since,
            used=int(live),
            waiting=waiting,
            oldest_wait=seconds_since(came_at(places[0][0], float(places[0][1])), now_us) if places else None,
            holders=(holder,) if live else (),
            queue=tuple(_queue(places, signs, now_us)) if self._deep else (),
        )


def _queue(places: list[tuple[str, str]], signs: dict[str, Sign], now_us: int) -> Iterator[WaiterInfo]:
    for position, (owner, number) in enumerate(places, 1):
        sign = signs.get(manager_of(owner), NO_SIGN)
        wants = "task" if own_part(owner).startswith(TASK) else "lock"
        alive = sign.until > now_us // 1000
        waited = seconds_since(came_at(owner, float(number)), now_us)
        yield WaiterInfo(position, short(owner), sign.process, wants, 1, waited, alive)
