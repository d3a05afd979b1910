"""Where chance, time and logs come into the library: for the length of a run they belong to the simulation."""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import os
import random
import secrets
import socket
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from aiolock import identity
from aiolock.scripts.multi import spread

from .server import EPOCH_US
from .world import World


class LogWatch(logging.Handler):
    """Hears what the library logs: an error inside it must not go unnoticed."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1]))
            self._world.fail(f"logged: {record.getMessage()}\n{trace}")
        self._world.note("log", record.getMessage()[:120])


PIECE = 3
"""Names of one script of a multi lock: so that few are many."""
version = functools.cache(importlib.metadata.version)
"""redis-py reads its own for each connection: a tenth of a short run."""


@contextmanager
def owned(world: World) -> Iterator[None]:
    """Give the seams to a world."""
    dice = world.dice("seams")
    logger = logging.getLogger("aiolock")
    before = secrets.token_hex, random.uniform, time.time_ns, socket.gethostname, os.getpid, identity._container
    uncached = importlib.metadata.version
    piece, spread.PIECE = spread.PIECE, PIECE
    level, propagate = logger.level, logger.propagate
    watch = LogWatch(world)

    def token_hex(nbytes: int | None = None) -> str:
        return dice.randbytes(nbytes or 16).hex()

    secrets.token_hex = token_hex  # type: ignore[assignment]
    random.uniform = dice.uniform
    time.time_ns = lambda: (EPOCH_US + round(world.now * 1_000_000)) * 1000
    socket.gethostname = lambda: "host"
    os.getpid = lambda: 1
    identity._container = lambda: ""  # type: ignore[assignment]
    importlib.metadata.version = version
    logger.addHandler(watch)
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        secrets.token_hex, random.uniform, time.time_ns, socket.gethostname, os.getpid, identity._container = before
        importlib.metadata.version = uncached
        spread.PIECE = piece
        logger.removeHandler(watch)
        logger.propagate = propagate
        logger.setLevel(level)
