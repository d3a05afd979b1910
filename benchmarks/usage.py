"""What a server has done since it started, by its own count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis import Redis

from .peers.aiolock import Lock


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of a server, or the difference of two.

    Attributes:
        commands: that clients sent.
        received: bytes.
        sent: bytes.
        cpu: seconds.
        memory: bytes that it uses.
    """

    commands: float
    received: float
    sent: float
    cpu: float
    memory: float

    @classmethod
    def of(cls, server: Redis) -> Usage:
        """Ask it."""
        info: dict[str, Any] = {}
        for section in ("commandstats", "stats", "cpu", "memory"):
            info |= server.info(section)  # type: ignore[operator] # not awaited
        calls = {name.removeprefix("cmdstat_"): row["calls"] for name, row in info.items() if name.startswith("cmdst")}
        commands = sum(count for name, count in calls.items() if name not in Lock.scripted | {"info"})
        bytes_both = info["total_net_input_bytes"], info["total_net_output_bytes"]
        return cls(commands, *bytes_both, info["used_cpu_user"] + info["used_cpu_sys"], info["used_memory"])

    def __sub__(self, before: Usage) -> Usage:
        return Usage(*(getattr(self, name) - getattr(before, name) for name in self.__slots__))

    def __truediv__(self, number: float) -> Usage:
        return Usage(*(getattr(self, name) / number for name in self.__slots__))


class Watch:
    """Usage since it was made, less what looking costs."""

    def __init__(self, server: Redis) -> None:
        self._server = server
        first = Usage.of(server)
        self._before = Usage.of(server)
        self._look = self._before - first

    def used(self) -> Usage:
        """What was used since; the memory that came since."""
        found = Usage.of(self._server) - self._before
        look = self._look
        return Usage(
            found.commands - look.commands, found.received - look.received, found.sent - look.sent,
            found.cpu - look.cpu, found.memory,
        )  # fmt: skip
