"""What people build on locks, for threads: the recipes of `aiolock.recipes` without `await`.

`Busy`, `NotRun`, `Unavailable`, `Run` and `RunStatus` are those of `aiolock.recipes`.
"""

from .current import current_lease as current_lease
from .election import Election as Election
from .election import leader as leader
from .exclusion import Exclusive as Exclusive
from .exclusion import Skipping as Skipping
from .exclusion import exclusive as exclusive
from .guard import GuardedWrites as GuardedWrites
from .guard import guard as guard
from .reservation import reserve as reserve
from .reservation import reserved as reserved
from .reservation import unreserve as unreserve
from .succession import follows as follows
from .window import Once as Once
from .window import once as once

__all__ = [
    "Election",
    "Exclusive",
    "GuardedWrites",
    "Once",
    "Skipping",
    "current_lease",
    "exclusive",
    "follows",
    "guard",
    "leader",
    "once",
    "reserve",
    "reserved",
    "unreserve",
]
