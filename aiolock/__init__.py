"""Distributed locks on Redis for asyncio: a guarded block is cancelled before anybody else can enter it."""

import logging as _logging

from .core.acquisition import Acquisition as Acquisition
from .core.lease import Lease as Lease
from .core.lease import Owner as Owner
from .errors import AcquireTimeout as AcquireTimeout
from .errors import AiolockError as AiolockError
from .errors import BackendError as BackendError
from .errors import ConfigurationError as ConfigurationError
from .errors import LockLost as LockLost
from .errors import LossReason as LossReason
from .errors import NotAcquired as NotAcquired
from .errors import NotOwned as NotOwned
from .errors import QuorumError as QuorumError
from .manager import LockManager as LockManager
from .primitives.lock import Lock as Lock
from .primitives.lock import LockInfo as LockInfo

__all__ = [
    "AcquireTimeout",
    "Acquisition",
    "AiolockError",
    "BackendError",
    "ConfigurationError",
    "Lease",
    "Lock",
    "LockInfo",
    "LockLost",
    "LockManager",
    "LossReason",
    "NotAcquired",
    "NotOwned",
    "Owner",
    "QuorumError",
]
__version__ = "0.1.0"

_logging.getLogger("aiolock").addHandler(_logging.NullHandler())
