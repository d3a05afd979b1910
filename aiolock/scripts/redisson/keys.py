"""Redisson's keys and channels. A name is a key itself, and those around it share its slot of a cluster."""

from __future__ import annotations


class RedissonKeys:
    """Names the keys and channels of one name, as Redisson does.

    Args:
        name: the lock's.
    """

    __slots__ = ("_tagged", "name")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self._tagged = name if "{" in name else f"{{{name}}}"

    @property
    def channel(self) -> str:
        """The channel of a lock: it is free, or was ended by force."""
        return f"redisson_lock__channel:{self._tagged}"

    @property
    def line(self) -> tuple[str, str, str]:
        """The hash of a fair lock, its queue, and the deadlines of that."""
        return self.name, f"redisson_lock_queue:{self._tagged}", f"redisson_lock_timeout:{self._tagged}"

    @property
    def token(self) -> str:
        """The counter of a fenced lock."""
        return f"redisson_lock_token:{self._tagged}"

    @property
    def rw_channel(self) -> str:
        """The channel of a read-write lock."""
        return f"redisson_rwlock:{self._tagged}"

    @property
    def latch_channel(self) -> str:
        """The channel of a latch: it is open."""
        return f"redisson_countdownlatch__channel__{self._tagged}"

    @property
    def permits_channel(self) -> str:
        """The channel of a semaphore whose permits expire: some are free."""
        return f"redisson_sc:{self._tagged}"

    @property
    def permits(self) -> str:
        """The ids of taken permits, and when they expire."""
        return f"{self._tagged}:timeout"

    @property
    def timeouts(self) -> str:
        """What the keys of readers' timeouts begin with."""
        return self._tagged

    def timeout(self, owner: str) -> str:
        """The key that lives for as long as a reader may; Redisson has one for each level."""
        return f"{self._tagged}:{owner}:rwlock_timeout:1"

    def dead(self, owner: str) -> str:
        """Our own: the tombstone of an owner that must never hold again."""
        return f"aiolock_dead:{self._tagged}:{owner}"
