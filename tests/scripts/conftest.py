"""The two places where scripts run, and one lock to run them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from aiolock.testing.server import RedisServer
from tests.support import acl, redis_cli
from tests.support.lock_calls import Lock
from tests.support.scripting import LuaSide, Side, StoreSide

SUBCOMMANDS = {"pubsub": "pubsub|numsub"}


@pytest.fixture(scope="session")
def link(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """A plain blocking client of the shared server."""
    with redis_cli.client(redis_server.url, single_connection_client=True) as link:  # no pool between 80,000 commands
        yield link


@pytest.fixture
def lua(link: redis.Redis, redis_url: str) -> Iterator[LuaSide]:
    """The Lua side, on an empty server."""
    side = LuaSide(link)
    yield side
    side.close()
    link.connection_pool.disconnect()  # other tests count who is connected to the shared server


@pytest.fixture(scope="module")
def sides(link: redis.Redis) -> Iterator[Callable[[], LuaSide]]:
    """Makes the Lua side of each generated example, and closes the previous one."""
    made: list[LuaSide] = []

    def make() -> LuaSide:
        while made:
            made.pop().close()
        made.append(LuaSide(link))
        return made[-1]

    yield make
    for side in made:
        side.close()
    link.connection_pool.disconnect()  # other tests count who is connected to the shared server


@pytest.fixture(params=["server", "store"])
def side(request: pytest.FixtureRequest) -> Side:
    """Each side in turn."""
    if request.param == "server":
        return request.getfixturevalue("lua")
    return StoreSide()


@pytest.fixture
def lock() -> Lock:
    return Lock()


@pytest.fixture
def denied(redis_server: RedisServer, lua: LuaSide) -> Iterator[Callable[[str], LuaSide]]:
    """Returns the side of a user that may do everything but one command."""
    sides: list[LuaSide] = []

    def deny(command: str) -> LuaSide:
        rule = f"-{SUBCOMMANDS.get(command, command)}"
        lua.link.execute_command(*acl.setuser(lua.link, "limited", *acl.EVERYTHING, rule))
        url = redis_server.url.replace("redis://", "redis://limited:secret@")
        sides.append(LuaSide(redis_cli.client(url)))
        return sides[-1]

    yield deny
    for side in sides:
        side.close()
        side.link.close()
    lua.link.execute_command("ACL", "DELUSER", "limited")
