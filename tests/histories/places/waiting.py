"""Waiting for servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import redis

PATIENCE = 40.0


class NotWhole(Exception):
    """Servers did not do in time what is needed to go on: the round ends here, and proves nothing more."""


async def until(check: Callable[[], bool]) -> None:
    """Ask again and again, in a thread: a server that does not answer must not hold up the proxies.

    Raises:
        NotWhole: it was not true in time.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(_true, check):  # noqa: ASYNC110 - servers announce nothing
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise NotWhole(f"{check} was not true after {PATIENCE:.0f} s") from error


def _true(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except redis.exceptions.RedisError:  # whoever is promoted cuts its clients
        return False
