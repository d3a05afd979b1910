"""Distributed locks for asyncio: if one can no longer be renewed, its block is cancelled before another can enter."""

TYPE_CHECKING = False
if TYPE_CHECKING:  # at run time, a name is imported when it is used: every run of pytest of every user comes past here
    from .core.acquisition import Acquisition as Acquisition
    from .core.acquisition import Attempt as Attempt
    from .core.holding.level import Owner as Owner
    from .core.lease import Lease as Lease
    from .core.polling import Poll as Poll
    from .errors import AcquireTimeout as AcquireTimeout
    from .errors import AiolockError as AiolockError
    from .errors import BackendError as BackendError
    from .errors import CommitUnknown as CommitUnknown
    from .errors import ConfigurationError as ConfigurationError
    from .errors import Holder as Holder
    from .errors import LockLost as LockLost
    from .errors import LossReason as LossReason
    from .errors import NotAcquired as NotAcquired
    from .errors import NotOwned as NotOwned
    from .errors import QuorumError as QuorumError
    from .errors import TransactionError as TransactionError
    from .errors import WaitTimeout as WaitTimeout
    from .events import Observer as Observer
    from .manager import LockManager as LockManager
    from .primitives.condition import Condition as Condition
    from .primitives.fair_lock import FairLock as FairLock
    from .primitives.fair_lock import FairLockInfo as FairLockInfo
    from .primitives.latch import Latch as Latch
    from .primitives.lock import Lock as Lock
    from .primitives.lock import LockInfo as LockInfo
    from .primitives.multi_lock import MultiLock as MultiLock
    from .primitives.options import Default as Default
    from .primitives.options import LockOptions as LockOptions
    from .primitives.presence import LeaseInfo as LeaseInfo
    from .primitives.presence import WaitInfo as WaitInfo
    from .primitives.rw_lock import RWLock as RWLock
    from .primitives.rw_lock import RWLockInfo as RWLockInfo
    from .primitives.rw_lock import RWLockSide as RWLockSide
    from .primitives.semaphore import Semaphore as Semaphore
    from .primitives.semaphore import SemaphoreInfo as SemaphoreInfo
    from .recipes.fenced import FencedBlock as FencedBlock
    from .recipes.fenced import fenced as fenced
    from .recipes.transaction_lock import hold_in as hold_in
    from .scripts.view import HolderInfo as HolderInfo
    from .scripts.view import WaiterInfo as WaiterInfo
else:
    _LATER = {
        "Acquisition": ".core.acquisition",
        "Attempt": ".core.acquisition",
        "Owner": ".core.holding.level",
        "Lease": ".core.lease",
        "Poll": ".core.polling",
        "AcquireTimeout": ".errors",
        "AiolockError": ".errors",
        "BackendError": ".errors",
        "CommitUnknown": ".errors",
        "ConfigurationError": ".errors",
        "Holder": ".errors",
        "LockLost": ".errors",
        "LossReason": ".errors",
        "NotAcquired": ".errors",
        "NotOwned": ".errors",
        "QuorumError": ".errors",
        "TransactionError": ".errors",
        "WaitTimeout": ".errors",
        "Observer": ".events",
        "LockManager": ".manager",
        "Lock": ".primitives.lock",
        "LockInfo": ".primitives.lock",
        "Default": ".primitives.options",
        "LockOptions": ".primitives.options",
        "Condition": ".primitives.condition",
        "FairLock": ".primitives.fair_lock",
        "FairLockInfo": ".primitives.fair_lock",
        "Latch": ".primitives.latch",
        "MultiLock": ".primitives.multi_lock",
        "RWLock": ".primitives.rw_lock",
        "RWLockInfo": ".primitives.rw_lock",
        "RWLockSide": ".primitives.rw_lock",
        "Semaphore": ".primitives.semaphore",
        "SemaphoreInfo": ".primitives.semaphore",
        "FencedBlock": ".recipes.fenced",
        "fenced": ".recipes.fenced",
        "hold_in": ".recipes.transaction_lock",
        "HolderInfo": ".scripts.view",
        "WaitInfo": ".primitives.presence",
        "LeaseInfo": ".primitives.presence",
        "WaiterInfo": ".scripts.view",
    }
    _MODULES = ("errors", "events")

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        found = globals()[name] = getattr(import_module(_LATER[name], __name__), name)
        return found

    def __dir__() -> list[str]:
        return [*{*globals(), *__all__}]


del TYPE_CHECKING
__all__ = [
    "AcquireTimeout",
    "Acquisition",
    "AiolockError",
    "Attempt",
    "BackendError",
    "CommitUnknown",
    "Condition",
    "ConfigurationError",
    "Default",
    "FairLock",
    "FairLockInfo",
    "FencedBlock",
    "Holder",
    "HolderInfo",
    "Latch",
    "Lease",
    "LeaseInfo",
    "Lock",
    "LockInfo",
    "LockLost",
    "LockManager",
    "LockOptions",
    "LossReason",
    "MultiLock",
    "NotAcquired",
    "NotOwned",
    "Observer",
    "Owner",
    "Poll",
    "QuorumError",
    "RWLock",
    "RWLockInfo",
    "RWLockSide",
    "Semaphore",
    "SemaphoreInfo",
    "TransactionError",
    "WaitInfo",
    "WaitTimeout",
    "WaiterInfo",
    "fenced",
    "hold_in",
]
__version__ = "0.4.0.dev0"
