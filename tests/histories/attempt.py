"""One operation, as the journal tells it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .journal import Event
from .period import Period

SPACES = {
    "lock": "lock", "fair": "lock", "multi": "lock", "resume": "lock", "read": "rw", "write": "rw",
    "permits": "semaphore", "count": "latch", "look": "latch", "wait": "latch",
    "join": "lock", "reserve": "job", "job": "job", "unreserve": "job", "force": "force",
    "rlock": "rlock", "rread": "rrw", "rwrite": "rrw", "rpermits": "rsemaphore",
}  # fmt: skip
"""Of what kind the server's state is: a fair lock is the lock of its name. An R is for Redisson's wire, without fences.
"""
NEVER = float("inf")


@dataclass(slots=True, eq=False)
class Attempt:
    """A task wanted something.

    Attributes:
        events: all that the journal says about it, in order.
        granted: when it surely had it; `NEVER` if it was not granted.
        abandoned: it was told that the last holder had vanished.
        left: when it still had it for the last time that is known.
        ended: when its call was over; `NEVER` if its process died before.
        how: "done", "lost", "cancelled", "missed", or "" if it did not end.
        kept_until: nobody else gets in before this, however early it leaves; 0.0 if it does not want that.
        told: the result of a call that may have joined another: which one ran.
        finished: when its job was done, and will not be run again; `NEVER` if it was not.
        reserved: it got this ticket for a job.
        within: seconds for which it reserves from its beginning on.
        slots: which permits it had, ascending; empty if it did not want to know.
        kept: from when on it had only so many permits: the first of these.
        writes: to the resource.
        root: the outermost of the attempts of its task that it is nested in; itself if none.
    """

    events: list[Event]
    pid: int
    number: int
    kind: str
    names: tuple[str, ...]
    began: float
    weight: int
    permits: int
    outer: int | None
    timeout: float | None
    ticket: str | None
    by: str | None
    within: float
    queued: float = NEVER
    granted: float = NEVER
    fence: int = 0
    lost_at_once: bool = False
    abandoned: bool = False
    kept_until: float = 0.0
    told: Event | None = None
    finished: float = NEVER
    reserved: Event | None = None
    left: float = NEVER
    detached: Event | None = None
    counted: int | None = None
    ended: float = NEVER
    how: str = ""
    reason: str = ""
    slots: tuple[int, ...] = ()
    kept: list[tuple[float, int]] = field(default_factory=list)
    writes: list[Event] = field(default_factory=list)
    root: Attempt | None = field(default=None, repr=False)

    @classmethod
    def of(cls, event: Event) -> Attempt:
        """The attempt that an event `began` begins."""
        return cls(
            [event], event["pid"], event["op"], event["kind"], tuple(event["names"]), event["at"],
            event.get("weight") or 1, event.get("permits") or 1,
            event.get("outer"), event.get("timeout"), event.get("ticket"), event.get("by"),
            event.get("within", 0.0),
        )  # fmt: skip

    def add(self, event: Event) -> None:
        """Take in one of its events."""
        self.events.append(event)
        at = event["at"]
        match event["event"]:
            case "queued":
                self.queued = max(at, self.began)
            case "granted":
                self.granted, self.fence, self.lost_at_once = at, event["fence"], bool(event.get("lost"))
                self.abandoned = bool(event.get("abandoned"))
                self.slots = tuple(event.get("slots", ()))
                self.kept_until = event.get("kept_until", 0.0)
            case "kept":
                self.kept.append((at, event["weight"]))
            case "write":
                self.writes.append(event)
            case "left":
                self.left = at
            case "detached":
                self.detached = event
            case "told":
                self.told = event
            case "finished":
                self.finished = at
            case "reserved":
                self.reserved = event
            case "counted":
                self.counted = event["left"]
            case "ended":
                self.ended, self.how, self.reason = at, event["how"], event.get("reason", "")

    @property
    def space(self) -> str:
        return SPACES[self.kind]

    def writes_to(self, name: str) -> list[Event]:
        """Its writes to one of its names; a write that names none is to the only one."""
        return [write for write in self.writes if write.get("name", name) == name]

    @property
    def outermost(self) -> bool:
        return self.root is self

    @property
    def inside(self) -> Period:
        """When it surely was inside."""
        return Period(self.granted, self.left)

    @property
    def call(self) -> Period:
        """From its beginning to its end."""
        return Period(self.began, self.ended)

    @property
    def alone(self) -> bool:
        """No other may have the name at the same time."""
        return self.space == "lock" or self.kind == "write"

    def __str__(self) -> str:
        fence = f", fence {self.fence}" if self.fence else ""
        return f"{self.kind} {'+'.join(self.names)} (process {self.pid}, operation {self.number}{fence})"
