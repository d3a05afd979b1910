"""What must not have happened, and the few events that show it."""

from __future__ import annotations

from dataclasses import dataclass

from .attempt import Attempt
from .journal import Event


@dataclass(frozen=True)
class Violation:
    """A model's find.

    Attributes:
        model: which model says so.
        words: what happened.
        events: those that show it, in the order of their time.
    """

    model: str
    words: str
    events: tuple[Event, ...]

    @classmethod
    def of(cls, model: str, words: str, *attempts: Attempt) -> Violation:
        """One that all events of some attempts show."""
        shown = {id(event): event for attempt in attempts for event in attempt.events}
        return cls(model, words, tuple(sorted(shown.values(), key=lambda event: float(event["at"]))))

    def __str__(self) -> str:
        return "\n".join([f"{self.model}: {self.words}", *map(_line, self.events)])


def _line(event: Event) -> str:
    rest = {key: value for key, value in event.items() if key not in ("at", "event", "pid", "op") and value is not None}
    words = " ".join(f"{key}={value}" for key, value in rest.items())
    return f"  {event['at']:14.6f}  {event['pid']:>7} {event.get('op', ''):>5}  {event['event']:<8} {words}".rstrip()
