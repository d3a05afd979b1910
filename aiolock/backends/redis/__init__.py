"""Locks on a Redis server."""

from .multiplexer import RedisBackend as RedisBackend
