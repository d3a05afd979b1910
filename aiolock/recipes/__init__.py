"""What people build on locks, done once: leader election, fenced transactions, guarded writes, a decorator.

A recipe takes locks, leases or a manager as arguments; nothing in aiolock depends on one.
"""

from .current import current_lease as current_lease
from .election import Election as Election
from .election import leader as leader
from .etcd_place import EtcdPlace as EtcdPlace
from .etcd_place import etcd_place as etcd_place
from .exclusion import Exclusive as Exclusive
from .exclusion import Skipping as Skipping
from .exclusion import exclusive as exclusive
from .fenced import fenced as fenced
from .guard import GuardedWrites as GuardedWrites
from .guard import guard as guard
from .joining import JoinFailed as JoinFailed
from .not_run import Busy as Busy
from .not_run import Gone as Gone
from .not_run import NotRun as NotRun
from .not_run import Unavailable as Unavailable
from .reservation import reserve as reserve
from .reservation import reserved as reserved
from .reservation import unreserve as unreserve
from .succession import follows as follows
from .window import Once as Once
from .window import Run as Run
from .window import RunStatus as RunStatus
from .window import once as once

__all__ = [
    "Busy",
    "Election",
    "EtcdPlace",
    "Exclusive",
    "Gone",
    "GuardedWrites",
    "JoinFailed",
    "NotRun",
    "Once",
    "Run",
    "RunStatus",
    "Skipping",
    "Unavailable",
    "current_lease",
    "etcd_place",
    "exclusive",
    "fenced",
    "follows",
    "guard",
    "leader",
    "once",
    "reserve",
    "reserved",
    "unreserve",
]
