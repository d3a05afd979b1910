"""What a store must offer: queues whose order never changes, places that end unless they are kept, and watches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ...clock import Clock
from ...errors import AiolockError


class Away(Exception):
    """The store gave no answer.

    Args:
        error: why, for users.
        ran: what was asked for may have been done.
    """

    def __init__(self, error: AiolockError, ran: bool = True) -> None:
        super().__init__(str(error))
        self.error: AiolockError = error
        self.ran: bool = ran


class Refusal(Exception):
    """The store will not do that.

    Args:
        text: why, for users.
        transient: perhaps it will later; or it may have done it.
    """

    def __init__(self, text: str, transient: bool = False) -> None:
        super().__init__(text)
        self.transient: bool = transient


class Place(NamedTuple):
    """One place in a queue, as the store has it.

    Attributes:
        key: how the store finds it.
        owner: the id; "" of another program's, which wants all of the name.
        order: its number: higher than those of all places that were there before it, on any name.
        weight: how much of the name it takes.
        capacity: how much there is, as its owner says.
        depth: levels.
        note: what its owner says of itself.
        lasts: what keeps it: the store's own.
    """

    key: str
    owner: str
    order: int
    weight: int
    capacity: int
    depth: int = 1
    note: str = ""
    lasts: Any = None


class View(NamedTuple):
    """A queue at one moment.

    Attributes:
        places: first to last.
        seen: when that was: the store's own, for watches.
        fence: that of the last one that had all of the name; 0 if it is unknown.
        held: it has not left: it holds the name, or has vanished.
    """

    places: Sequence[Place]
    seen: int = 0
    fence: int = 0
    held: bool = False


class Last(NamedTuple):
    """What is known of the last one that had all of a name.

    Attributes:
        fence: its fence; 0 if it is unknown.
        held: it has not left.
        took: the one before it had not, either.
    """

    fence: int = 0
    held: bool = False
    took: bool = False


@dataclass(eq=False, slots=True)
class OwnPlace:
    """A place of this process, or one that it asks for.

    Attributes:
        path: of the name's queue.
        owner: the id.
        ttl_ms: for how long it is kept.
        weight, capacity: how much it takes, of how much.
        note: what others are told.
        floor: the highest fence known when it was first asked for.
        shared: several can have the name, and what they share has the fence of the last one that had all of it.
        key, order: see `Place`; "" and 0 until the store has answered.
        before: what is before it, as far as it was still there when that was last seen.
        entered: nothing is in its way.
        claimed: the store knows that.
        fence: its fencing token, once it is claimed.
        abandoned: the last one that had all of the name before it has vanished.
        lessened: it had all of the name once, which ended cleanly.
        depth: levels.
        tainted: a request of it went unanswered.
        until: clock time until which its user may count on it, as that was told last.
        lasts: what keeps it: the store's own.
        watched: what it watches, by key: the store's own.
    """

    path: str
    owner: str
    ttl_ms: int
    weight: int
    capacity: int
    note: str
    floor: int
    shared: bool
    key: str = ""
    order: int = 0
    before: list[Place] = field(default_factory=list)
    entered: bool = False
    claimed: bool = False
    fence: int = 0
    abandoned: bool = False
    lessened: bool = False
    depth: int = 1
    tainted: bool = False
    until: float = 0.0
    lasts: Any = None
    watched: dict[str, Any] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether it takes all of the name, so that its end is noted."""
        return self.weight >= self.capacity and (self.capacity == 1 or self.shared)

    @property
    def told(self) -> bool:
        """Whether who waits behind it watches it, to hear when it is in."""
        return self.capacity > 1 and not self.shared

    @property
    def noted(self) -> bool:
        """Whether the store notes how it ends."""
        return self.claimed and self.whole

    def claim(self, last: Last) -> None:
        """The store knows that it is in, and knew this before."""
        self.claimed, self.fence = True, self.order
        if self.whole or self.shared:
            self.abandoned = last.took if last.fence == self.order else last.held  # it may have noted that itself
        if self.shared and not self.whole:
            self.fence = last.fence or self.order


Moved = Callable[[OwnPlace, str, bool], None]
"""Told of a place, the key of what it watches, and whether that is gone for sure; otherwise it may have changed."""


Lost = Callable[[AiolockError, bool], None]
"""Told why there is no connection any more, and again while there is none; and whether nobody can be reached at all, so
that those who need an answer soon need not wait for one.
"""


class Store(Protocol):
    """One store, used by one manager on one loop.

    Each method that awaits may raise `Away` or `Refusal`. Each may be repeated after `Away`, as what it asked for may
    have been done.

    Attributes:
        name: what it is called in errors.
        address: where it is, for people.
        clock: the clock of its deadlines.
        behind: what to do if its numbers have fallen, as a sentence without its end.
    """

    name: str
    address: str
    clock: Clock
    behind: str

    async def open(self, moved: Moved, lost: Lost, back: Callable[[], None]) -> None:
        """Connect.

        Args:
            moved: told of what happens to what is watched.
            lost: told of outages.
            back: told when there is one again; all watches are gone then.
        """

    async def ready(self) -> None:
        """Wait until there is a connection."""

    async def enter(self, own: OwnPlace, waits: bool) -> View:
        """Take a place, or find the one that an unanswered request took; set its key, order and `lasts`, and if no
        place is before it, also what `claim` sets. If it does not wait and would take all of the name, it takes no
        place where there is one.

        Raises:
            Refusal: the store cannot keep it for its ttl.
        """

    async def look(self, path: str, notes: bool = False) -> View:
        """Return the queue; also with what those say of themselves that wait, if you want `notes`."""

    async def paths(self, root: str, after: str, most: int) -> tuple[list[str], str]:
        """Return the paths of some names in a namespace in which there may be something, and what to go on after, "" if
        these are the last.

        Args:
            root: of the namespace.
            after: what was returned before; the root to begin with.
            most: places that are read, about.
        """

    async def claim(self, own: OwnPlace) -> bool:
        """Nothing is in its way: note that; set its fence, and `abandoned`. False if the place is gone. The place lasts
        for about its ttl from then on. Of a name that several can have, who watches it is notified of a change.
        """

    async def leave(self, own: OwnPlace, clean: bool) -> bool:
        """Give up the place, whatever is known of it, and note how it ended; return whether it was there."""

    async def keep(self, owns: Sequence[OwnPlace]) -> Sequence[bool]:
        """Make each last for its ttl from now on; return which are still there."""

    async def rewrite(self, own: OwnPlace) -> bool:
        """Tell of its weight and depth, and of the clean end of all it had, if it has less now; return whether it is
        still there.
        """

    async def remove(self, path: str, places: Sequence[Place]) -> int:
        """End places, whoever has them; return how many were still there."""

    async def remaining(self, place: Place) -> float:
        """How many seconds it lasts, unless it is kept; 0 if it is gone."""

    def listen(self, mailbox: str, hear: Callable[[str], None]) -> None:
        """Pass on what is sent to a mailbox from now on, each text at most once. None is lost while there is a
        connection.
        """

    async def send(self, mailbox: str, text: str) -> None:
        """Send a text to a mailbox; if nobody listens there, it is lost."""

    def watch(self, own: OwnPlace, keys: Sequence[str], seen: int) -> None:
        """Tell of each of these places that is gone, or changes, since the view that was `seen`. Replaces what it
        watched before.
        """

    def most_ms(self, own: OwnPlace) -> float:
        """For how long it can be kept at most, whatever is asked for later."""

    def expiry(self, own: OwnPlace) -> float:
        """Clock time before which the store does not end it by itself; 0.0 if nothing keeps it."""

    async def aclose(self) -> None:
        """Give up all connections, and whatever no place needs."""
