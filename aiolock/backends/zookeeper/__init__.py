"""Locks in ZooKeeper, by its own recipe: ephemeral sequential nodes and watches. Curator's `InterProcessMutex` keeps
the same queues.
"""

from .address import ZooKeeperAddress as ZooKeeperAddress
from .store import ZooKeeperStore as ZooKeeperStore
