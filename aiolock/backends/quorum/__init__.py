from .backend import QuorumBackend as QuorumBackend
