"""Stores that keep ordered queues themselves, such as etcd: a place in a name's queue is the hold, once what is before
it leaves enough.
"""

from .backend import CoordinatorBackend

__all__ = ["CoordinatorBackend"]
