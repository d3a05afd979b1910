"""The locks of aiolock for threads: the same on the server, without `await`.

Errors, `Owner` and what `info()` returns are those of `aiolock`.
"""

from .condition import Condition as Condition
from .fenced import FencedBlock as FencedBlock
from .fenced import fenced as fenced
from .latch import Latch as Latch
from .lease import Lease as Lease
from .lock import FairLock as FairLock
from .lock import Lock as Lock
from .manager import LockManager as LockManager
from .multi_lock import MultiLock as MultiLock
from .options import LockOptions as LockOptions
from .rw_lock import RWLock as RWLock
from .rw_lock import RWLockSide as RWLockSide
from .semaphore import Semaphore as Semaphore
from .transaction_lock import hold_in as hold_in

__all__ = [
    "Condition",
    "FairLock",
    "FencedBlock",
    "Latch",
    "Lease",
    "Lock",
    "LockManager",
    "LockOptions",
    "MultiLock",
    "RWLock",
    "RWLockSide",
    "Semaphore",
    "fenced",
    "hold_in",
]
