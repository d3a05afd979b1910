from .backend import ClusterBackend as ClusterBackend
