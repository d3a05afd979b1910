"""Locks that a Java service shares with you: Redisson's, by its own keys, channels and messages."""

from .count_down_latch import RCountDownLatch as RCountDownLatch
from .factory import Redisson as Redisson
from .fair_lock import RFairLock as RFairLock
from .fair_lock import RFairLockInfo as RFairLockInfo
from .fenced_lock import RFencedLock as RFencedLock
from .lock import RLock as RLock
from .lock import RLockInfo as RLockInfo
from .permits import RPermitExpirableSemaphore as RPermitExpirableSemaphore
from .permits import RPermitExpirableSemaphoreInfo as RPermitExpirableSemaphoreInfo
from .rw_lock import RReadWriteLock as RReadWriteLock
from .rw_lock import RReadWriteLockInfo as RReadWriteLockInfo
from .rw_lock import RReadWriteLockSide as RReadWriteLockSide

__all__ = [
    "RCountDownLatch",
    "RFairLock",
    "RFairLockInfo",
    "RFencedLock",
    "RLock",
    "RLockInfo",
    "RPermitExpirableSemaphore",
    "RPermitExpirableSemaphoreInfo",
    "RReadWriteLock",
    "RReadWriteLockInfo",
    "RReadWriteLockSide",
    "Redisson",
]
