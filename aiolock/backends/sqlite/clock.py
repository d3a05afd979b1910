"""One clock for all processes of a host that no one can set: the time since boot, plus what it was at first use."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from ...errors import ConfigurationError
from ..transactional.engine import Unavailable

BOOT = Path("/proc/sys/kernel/random/boot_id")
OFFSETS = Path("/proc/self/timens_offsets")
"""By how much a time namespace moves the clocks of its processes."""
OWN, CHILDREN = Path("/proc/self/ns/time"), Path("/proc/self/ns/time_for_children")
RESERVED = 60_000_000
"""Microseconds by which the file is ahead of the time that was given out, so that it need not say each."""
SOON = 2_000_000
"""Microseconds before the end of what is reserved at which more is."""


class HostClock:
    """Microseconds that never go back, over reboots either: fences are made of them.

    The first process that opens the file after a boot decides by how much the clock is ahead of the time since boot: so
    that it shows the wall clock's time, or what was reserved before, if that is later. Where the system does not tell
    one boot from another, it is the wall clock, which can be set.

    Args:
        link: of a transaction that may write.
    """

    def __init__(self, link: sqlite3.Connection) -> None:
        boot = BOOT.read_text().strip() if hasattr(time, "CLOCK_BOOTTIME") and BOOT.exists() else ""
        self._source: int | None = time.CLOCK_BOOTTIME if boot else None
        self._moved_ns = moved_ns() if boot else 0
        self._ahead = 0
        self.until: int = 0
        found = link.execute("SELECT boot, ahead_us, until_us FROM aiolock_clock").fetchone()
        if found is None or found[0] != boot:
            reserved = 0 if found is None else found[2]
            if boot:
                self._ahead = max(time.time_ns() // 1000, reserved) - self.now_us()
            link.execute("DELETE FROM aiolock_clock")
            link.execute("INSERT INTO aiolock_clock VALUES(?, ?, ?)", (boot, self._ahead, reserved))
        else:
            self._ahead = found[1]

    def now_us(self) -> int:
        """The time."""
        source = self._source
        now = time.time_ns() if source is None else time.clock_gettime_ns(source)
        return (now - self._moved_ns) // 1000 + self._ahead

    def reserve(self, link: sqlite3.Connection) -> int:
        """Note a time that is later than all that are given out until then, unless another process has; in a
        transaction that may write. Return it: it is ours as `until` once that is on the disk.
        """
        now = self.now_us()
        noted = "UPDATE aiolock_clock SET until_us = ? WHERE until_us < ?"
        link.execute(noted, (now + RESERVED, now + RESERVED // 2))
        until: int = link.execute("SELECT until_us FROM aiolock_clock").fetchone()[0]
        return until

    def runs_out(self) -> bool:
        """Whether it is time to reserve more."""
        return self.now_us() + SOON >= self.until


def moved_ns() -> int:
    """Nanoseconds by which this process's time since boot differs from the host's: it may be in a time namespace.

    Raises:
        Unavailable: the system does not tell.
    """
    try:
        if OWN.readlink() != CHILDREN.readlink():  # what it says is that of the children
            text = "its own time namespace is not that of its children, so its clock is unknown: take locks in a child"
            raise Unavailable(ConfigurationError("", text))
        words = OFFSETS.read_text().split()
    except FileNotFoundError:
        return 0  # a kernel without such namespaces
    at = words.index("boottime")
    return int(words[at + 1]) * 1_000_000_000 + int(words[at + 2])
