"""What an ensemble of ZooKeeper is asked before it keeps locks, and what its answers mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..backends.zookeeper.reader import ServerStatus
from ..clock import format_seconds
from ..errors import AiolockError
from .examination import Finding, Level

OLDEST = (3, 6)
"""The oldest line that the tests of others still cover: earlier ones lack what is asked for."""
USUAL = 30.0
"""Seconds: the ttl, unless you say another."""


def examine_server(status: ServerStatus | AiolockError) -> Iterator[Finding]:
    """Return what can be said of a server.

    Args:
        status: what it says, or why it says nothing.
    """
    if isinstance(status, AiolockError):
        yield Finding("server", Level.PROBLEM, str(status), "start it, or leave it out of the URL")
        return
    yield Finding("server", Level.OK, f"ZooKeeper {status.version or 'of an unknown version'} {status.mode}".rstrip())
    if status.version and tuple(int(part) for part in status.version.split(".")[:2] if part.isdigit()) < OLDEST:
        yield Finding("version", Level.PROBLEM, f"{status.version} is too old", "update to 3.6 or newer")
    longest = f"a lock lasts for {format_seconds(status.longest)} s at most"
    if status.longest < USUAL:
        advice = f"raise maxSessionTimeout, or take a shorter ttl than the usual {USUAL:g} s"
        yield Finding("ttl", Level.PROBLEM, longest, advice)
    else:
        yield Finding("ttl", Level.OK, longest)


def examine_servers(statuses: Sequence[ServerStatus | AiolockError]) -> Iterator[Finding]:
    """Return what can be said of the URL: whether it names enough of them."""
    alone = [status for status in statuses if isinstance(status, ServerStatus)]
    if len(statuses) == 1 and all(status.mode != "standalone" for status in alone):
        advice = "name all servers: zookeeper://a:2181,b:2181,c:2181"
        yield Finding("members", Level.ADVICE, "you name one server: if it is down, nobody gets a lock", advice)
    elif any(status.mode == "standalone" for status in alone):
        advice = "run three servers, so that one may fail"
        yield Finding("members", Level.ADVICE, "it is alone: if it is down, nobody gets a lock", advice)
