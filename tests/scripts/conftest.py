"""The two sides of each script, and one lock to run them on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.scripting import Lock, LuaSide, Side, TwinSide


@pytest.fixture(scope="session")
def link(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """A plain blocking client of the shared server."""
    with redis_cli.client(redis_server.url) as link:
        yield link


@pytest.fixture
def lua(link: redis.Redis, redis_url: str) -> Iterator[LuaSide]:
    """The Lua side, on an empty server."""
    side = LuaSide(link)
    yield side
    side.close()
    link.connection_pool.disconnect()  # other tests count who is connected to the shared server


@pytest.fixture(params=["lua", "twin"])
def side(request: pytest.FixtureRequest) -> Side:
    """Each side in turn: what a script's header promises, its twin promises too."""
    if request.param == "lua":
        return request.getfixturevalue("lua")
    return TwinSide()


@pytest.fixture
def lock() -> Lock:
    return Lock()
