"""Waiting for servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import redis

PATIENCE = 40.0


async def until(check: Callable[[], bool]) -> None:
    """Ask again and again, in a thread: a server that does not answer must not hold up the proxies."""
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(_true, check):  # noqa: ASYNC110 - servers announce nothing
            await asyncio.sleep(0.05)


def _true(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except redis.exceptions.RedisError:  # whoever is promoted cuts its clients
        return False
