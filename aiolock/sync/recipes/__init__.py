"""What people build on locks, for threads: the recipes of `aiolock.recipes` without `await`.

`Busy`, `NotRun`, `Unavailable`, `Run` and `RunStatus` are those of `aiolock.recipes`.
"""

from .current import current_lease as current_lease
from .exclusion import Exclusive as Exclusive
from .exclusion import Skipping as Skipping
from .exclusion import exclusive as exclusive
from .window import Once as Once
from .window import once as once

__all__ = [
    "Exclusive",
    "Once",
    "Skipping",
    "current_lease",
    "exclusive",
    "once",
]
