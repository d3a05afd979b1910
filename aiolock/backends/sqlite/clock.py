"""One clock for all processes of a host that no one can set: the time since boot, plus what it was at first use."""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path

from ...errors import ConfigurationError
from ..transactional.engine import Unavailable
from .users import Users

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
    that it shows the wall clock's time, or what was reserved before, if that is later. A container may see another boot
    id than its host: that counts as a boot only if nobody has the file open. On other systems than Linux it is the wall
    clock, which can be set.

    Args:
        link: of a transaction that may write.
        path: of the file.

    Raises:
        Unavailable: this process cannot know which boot it is.
    """

    def __init__(self, link: sqlite3.Connection, path: Path) -> None:
        self._source: int | None = None
        self._moved_ns = self._ahead = self.until = 0
        self._users: Users | None = None
        boot = boot_id()
        found = link.execute("SELECT boot, ahead_us, until_us FROM aiolock_clock").fetchone()
        if boot:
            self._source, self._moved_ns = time.CLOCK_BOOTTIME, moved_ns()
        if found is None or (found[0] != boot and not (boot and found[0] and Users(path, found[0]).any())):
            reserved = 0 if found is None else found[2]
            if boot:
                self._ahead = max(time.time_ns() // 1000, reserved) - self.now_us()
            if found is not None:
                Users(path, found[0]).forget()
            link.execute("DELETE FROM aiolock_clock")
            link.execute("INSERT INTO aiolock_clock VALUES(?, ?, ?)", (boot, self._ahead, reserved))
        else:
            boot, self._ahead = found[:2]
        if boot:
            self._users = Users(path, boot)
            self._users.join()

    def rest(self, link: sqlite3.Connection) -> None:
        """Reserve nothing more if nobody else has the file open: who comes next need not leap over that."""
        if self._users is not None and self._users.last():
            link.execute("UPDATE aiolock_clock SET until_us = min(until_us, ?)", (self.now_us(),))

    def close(self) -> None:
        """Others need not count on it any more."""
        if self._users is not None:
            self._users.leave()

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


def seen_us(link: sqlite3.Connection) -> int:
    """The time, for those who only look: they decide nothing, so they may be wrong if they see another boot id."""
    found = link.execute("SELECT boot, ahead_us FROM aiolock_clock").fetchone()
    wall = time.time_ns() // 1000
    if sys.platform != "linux" or found is None or not found[0]:
        return wall
    now: int = (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - moved_ns()) // 1000 + found[1]
    try:
        return now if boot_id() == found[0] else max(now, wall)
    except Unavailable:
        return max(now, wall)


def boot_id() -> str:
    """What tells one boot from another; "" on other systems than Linux.

    Raises:
        Unavailable: this process cannot see it.
    """
    if sys.platform != "linux":
        return ""
    try:
        return BOOT.read_text().strip()
    except OSError as error:
        text = f"the file's clock needs {BOOT}, which this process cannot read: show it (systemd: ProcSubset=all)"
        raise Unavailable(ConfigurationError("", text)) from error


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
