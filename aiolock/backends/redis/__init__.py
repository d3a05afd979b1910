"""Locks on a Redis server."""

from .backend import RedisBackend as RedisBackend
from .clients import Client as Client
from .replicas import Replicas as Replicas
