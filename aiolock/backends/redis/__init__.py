"""Locks on a Redis server."""

from .backend import RedisBackend as RedisBackend
from .replicas import Replicas as Replicas
