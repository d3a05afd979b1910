"""When processes stood still."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.histories.history import NOTICED


class Stall(NamedTuple):
    """From when until when a process could notice no loss."""

    pid: int
    since: float
    until: float


class Stalls(list[Stall]):
    """The stalls among some events."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        super().__init__(
            Stall(event["pid"], event["since"], event["until"] + NOTICED)
            for event in events
            if event["event"] == "stalled"
        )

    def during(self, event: dict[str, Any]) -> Stall | None:
        """The stall of its own process in which an event happened."""
        mine = (stall for stall in self if stall.pid == event["pid"])
        return next((stall for stall in mine if stall.since <= event["at"] <= stall.until), None)
