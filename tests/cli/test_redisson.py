"""`aiolock info --redisson`: who has a lock that a Java service shares."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from aiolock import LockManager
from aiolock.redisson import Redisson
from tests.support import redis_cli
from tests.support.cluster import Cluster

from .conftest import CommandLine

JAVA = "6b1c9a54-7c0e-4f3b-9c55-0d6f3b1f8a11"


@pytest.fixture
def link(redis_url: str) -> Iterator[redis.Redis]:
    with redis_cli.client(redis_url) as link:
        yield link


def seen(cli: CommandLine, name: str, *options: str) -> dict[str, object]:
    result = cli("info", "--redisson", "--json", name, *options)
    assert result.exit_code == 0, result.output
    (facts,) = json.loads(result.output)
    return dict(facts)


def test_a_fair_lock_that_is_waited_for(cli: CommandLine, link: redis.Redis) -> None:
    link.hset("orders", f"{JAVA}:51", "2")
    link.pexpire("orders", 60_000)
    link.rpush("redisson_lock_queue:{orders}", f"{JAVA}:52", f"{JAVA}:53")
    facts = seen(cli, "orders")
    assert (facts["state"], facts["process"], facts["waiting"], facts["fence"]) == ("held", f"{JAVA}:51", 2, 0)
    text = cli("info", "--redisson", "orders").output
    assert text.splitlines()[0] == "redisson orders: held"
    assert f"{JAVA}:51" in text


def test_a_read_write_lock(cli: CommandLine, link: redis.Redis) -> None:
    link.hset("book", mapping={"mode": "read", f"{JAVA}:51": "1", f"{JAVA}:52": "1"})
    facts = seen(cli, "book")
    assert (facts["state"], facts["used"], facts["process"]) == ("read", 2, f"{JAVA}:51, {JAVA}:52")


def test_a_token_without_a_holder(cli: CommandLine, link: redis.Redis) -> None:
    link.set("redisson_lock_token:{orders}", 7)
    facts = seen(cli, "orders")
    assert (facts["state"], facts["fence"], facts["ttl"]) == ("free", 7, None)


def test_on_a_cluster(masters_only: Cluster, tmp_path: Path) -> None:
    """Each is on a master of its own."""
    cli = CommandLine(masters_only.urls[0], tmp_path)
    names = [name for master in masters_only.masters for name in masters_only.names_on(master)]
    for name in names:
        masters_only.master_of(name).ask("HSET", name, f"{JAVA}:51", "1")
        assert seen(cli, name, "--cluster")["process"] == f"{JAVA}:51"
    listed = cli("ls", "--redisson", "--cluster").stdout.splitlines()
    assert sorted(line.split()[1] for line in listed[1:]) == sorted(names)


def test_what_is_no_lock(cli: CommandLine, link: redis.Redis) -> None:
    """Nothing is known of another program's key."""
    link.set("orders", "text")
    assert cli("info", "--redisson", "orders").exit_code == 1
    assert cli("info", "--redisson", "nothing").exit_code == 1


def test_all_that_are_held(cli: CommandLine, link: redis.Redis, redis_url: str) -> None:
    """By Java, or by a manager of ours; but nothing of another program's, nor of our own locks."""

    async def held() -> None:
        async with LockManager(redis_url) as locks, Redisson(locks).lock("order:2"), locks.semaphore("api", 3):
            link.hset("order:1", f"{JAVA}:51", "2")
            link.hset("order:3", mapping={"mode": "read", f"{JAVA}:51": "1", f"{JAVA}:52": "1"})
            link.hset("order:4", mapping={f"{JAVA}:51": "1", "name": "a user"})
            link.hset("order:5", mapping={f"session:{number}": "1" for number in range(2000)})
            link.set("order:6", "text")
            link.hset("book:7", f"{JAVA}:51:write", "1")
            result = await asyncio.to_thread(cli, "ls", "--redisson", "--json", "order:*")
            assert [(one["name"], one["state"], one["used"]) for one in json.loads(result.output)] == [
                ("order:1", "held", 1),
                ("order:2", "held", 1),
                ("order:3", "read", 2),
            ]
            everything = (await asyncio.to_thread(cli, "ls", "--redisson")).output
            assert "book:7" in everything
            assert "api" not in everything

    asyncio.run(held())
    link.flushall()
    assert cli("ls", "--redisson").exit_code == 0
    assert cli("ls", "--redisson", "--kind", "lock").exit_code == 2


@pytest.mark.parametrize("command", ["ls", "info"])
def test_where_there_are_none(cli: CommandLine, command: str, tmp_path: Path) -> None:
    """A file has none of the commands. Kept by Survey.need_redis."""
    (tmp_path / "locks.db").touch()
    result = cli(command, "--redisson", "orders", "--url", f"sqlite:///{tmp_path / 'locks.db'}")
    assert "Redisson's locks need a Redis server, and this is sqlite" in result.output
    assert result.exit_code not in (0, 1)
