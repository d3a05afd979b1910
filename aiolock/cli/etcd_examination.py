"""What an etcd cluster is asked before it keeps locks, and what its answers mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..backends.etcd.cluster import number_of
from ..backends.etcd.reader import MemberStatus
from ..errors import AiolockError
from .examination import Finding, Level

SOUND: dict[tuple[int, ...], tuple[int, ...]] = {(3, 4): (3, 4, 31), (3, 5): (3, 5, 13)}
"""The first of each line in which a leader that was stuck ends no lease early."""


def examine_member(status: MemberStatus | AiolockError) -> Iterator[Finding]:
    """Return what can be said of a member.

    Args:
        status: what it says, or why it says nothing.
    """
    if isinstance(status, AiolockError):
        yield Finding("server", Level.PROBLEM, str(status), "start it, or leave it out of the URL")
        return
    version = number_of(status.version)
    yield Finding("server", Level.OK, f"etcd {status.version}")
    if version < SOUND.get(version[:2], (3, 4)):
        least = ".".join(map(str, SOUND.get(version[:2], (3, 5, 13))))
        text = "a leader that was stuck may end leases early, so that two hold a lock"
        yield Finding("leases", Level.PROBLEM, text, f"update to {least} or newer")
    if status.leads is None:
        yield Finding("leader", Level.PROBLEM, "it knows no leader", "most members must be up, and reach each other")
    for alarm in status.alarms:
        advice = "compact and defragment it, then etcdctl alarm disarm" if "NOSPACE" in alarm else ""
        yield Finding("alarm", Level.PROBLEM, alarm, advice)


def examine_members(statuses: Sequence[MemberStatus | AiolockError]) -> Iterator[Finding]:
    """Return what can be said of the URL: whether it names enough of them."""
    if len(statuses) == 1:
        advice = "name all members: etcd://a:2379,b:2379,c:2379"
        yield Finding("members", Level.ADVICE, "you name one member: if it is down, nobody gets a lock", advice)
