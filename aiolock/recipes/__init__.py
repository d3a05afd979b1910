"""What people build on locks, done once: leader election, guarded writes, a decorator, once in a while.

A recipe takes locks, leases or a manager as arguments; nothing in aiolock depends on one.
"""

from .election import Election as Election
from .election import leader as leader
from .guard import GuardedWrites as GuardedWrites
from .guard import guard as guard

__all__ = ["Election", "GuardedWrites", "guard", "leader"]
