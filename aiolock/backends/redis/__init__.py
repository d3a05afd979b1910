"""Locks on a Redis server."""

from .multiplexer import RedisBackend as RedisBackend
from .replicas import Replicas as Replicas
