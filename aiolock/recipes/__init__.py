"""What people build on locks, done once: leader election, a decorator, once in a while.

A recipe takes locks or a manager as arguments; nothing in aiolock depends on one.
"""

from .election import Election as Election
from .election import leader as leader

__all__ = ["Election", "leader"]
