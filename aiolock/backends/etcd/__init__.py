"""Locks in etcd, by its own recipe: leases, revisions and watches. `etcdctl lock` and Go's `concurrency.Mutex` keep the
same queues.

Raises:
    ConfigurationError: on import: grpclib is not installed.
"""

from ...errors import ConfigurationError

try:
    import grpclib as grpclib
except ModuleNotFoundError as _missing:
    raise ConfigurationError("", "locks in etcd need grpclib: pip install 'aiolock-redis[etcd]'") from _missing

from .address import EtcdAddress as EtcdAddress
from .cluster import EtcdCluster as EtcdCluster
from .store import EtcdStore as EtcdStore
