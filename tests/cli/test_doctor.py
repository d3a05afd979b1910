"""`aiolock doctor`: what it says of servers that are as they should be, and of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from aiolock.backends.redis import ServerInfo, fields_of
from aiolock.cli.examination import Level, Measurement, examine, judge_line
from tests.docs.test_acl import rules
from tests.support import redis_cli
from tests.support.locks import all_keys

from .conftest import CommandLine, with_one_away

GOOD = {"redis_version": "7.2.4", "redis_mode": "standalone", "role": "master", "maxmemory": "0", "aof_enabled": "1"}


def levels(**changes: str) -> dict[str, Level]:
    """What is said of a server whose INFO differs so."""
    return {found.topic: found.level for found in examine(ServerInfo({**GOOD, **changes}), "standalone")}


def test_a_good_server() -> None:
    assert set(levels().values()) == {Level.OK}
    assert [found.level for found in examine(ServerInfo({}), "standalone")] == [Level.ADVICE]
    assert fields_of(b"# Server\r\na:1\r\nb:x:y\r\n") == {"a": "1", "b": "x:y"}


@pytest.mark.parametrize(
    ("changes", "topic", "level"),
    [
        ({"redis_version": "5.0.14"}, "server", Level.PROBLEM),
        ({"redis_mode": "sentinel"}, "topology", Level.PROBLEM),
        ({"redis_mode": "cluster"}, "topology", Level.PROBLEM),
        ({"role": "slave"}, "topology", Level.PROBLEM),
        ({"maxmemory": "100", "maxmemory_policy": "allkeys-lru"}, "eviction", Level.PROBLEM),
        ({"maxmemory": "0", "maxmemory_policy": "allkeys-lru"}, "eviction", Level.OK),
        ({"maxmemory": "100", "used_memory": "95"}, "eviction", Level.ADVICE),
        ({"aof_enabled": "0"}, "persistence", Level.ADVICE),
        ({"connected_slaves": "2"}, "replicas", Level.ADVICE),
    ],
)
def test_what_a_server_says(changes: dict[str, str], topic: str, level: Level) -> None:
    found = levels(**changes)
    assert found.pop(topic) is level
    assert set(found.values()) == {Level.OK}


def test_a_line() -> None:
    """A slow one and a clock that is wrong are mentioned; the figures follow the line."""
    good = list(judge_line(Measurement(100, 0.001, 0.002, 0.01, 0.0005)))
    bad = list(judge_line(Measurement(100, 0.2, 0.4, -90.0, 0.1)))
    assert [found.level for found in good] == [Level.OK] * 4
    assert [found.level for found in bad] == [Level.ADVICE, Level.ADVICE, Level.OK, Level.OK]
    assert "ttl 0.5 s" in good[3].text
    assert "ttl 24.0 s" in bad[3].text
    assert "behind" in bad[1].text


@pytest.fixture
def limited(cli: CommandLine) -> Iterator[CommandLine]:
    """As a user with the rights of the page for locks, less two, and with those that the doctor needs."""
    with redis_cli.client(cli.url) as link:
        for section in ("connection", "locks"):
            link.execute_command(*(word.replace(">password", ">secret") for word in rules()[section]))
        link.execute_command("ACL", "SETUSER", "locks", "-zrank", "-subscribe", "+multi", "+discard")
        yield CommandLine(cli.url.replace("redis://", "redis://locks:secret@"), cli.folder)
        link.acl_deluser("locks")


def test_it_finds_what_is_denied_without_doing_it(limited: CommandLine, cli: CommandLine) -> None:
    """Kept by aiolock/cli/examination.py."""
    result = limited("doctor", "--json")
    assert result.exit_code == 1
    said: Any = json.loads(result.stdout)
    rights = {found["text"].partition(":")[0]: found for found in said["findings"] if found["topic"] == "rights"}
    assert rights["locks"]["level"] == "problem"
    assert "denied ZRANK;" in rights["locks"]["text"]
    assert "denied SUBSCRIBE;" in rights["waiting"]["text"]
    assert {"latches", "looking", "semaphores", "read-write locks"} <= set(rights)
    assert "conditions" not in rights
    assert "secret" not in result.output
    with redis_cli.client(cli.url) as link:
        assert all_keys(link) == []


def test_without_a_transaction_it_asks_for_nothing(limited: CommandLine, cli: CommandLine) -> None:
    """Otherwise it would do what it asks for. Kept by denied in aiolock/cli/examination.py."""
    with redis_cli.client(cli.url) as link:
        link.execute_command("ACL", "SETUSER", "locks", "-multi")
        result = limited("doctor")
        assert all_keys(link) == []
    assert "unknown: without MULTI" in result.stdout


def test_a_full_server_denies_nothing(cli: CommandLine) -> None:
    """Kept by denied in aiolock/cli/examination.py."""
    with redis_cli.client(cli.url) as link:
        link.config_set("maxmemory", "1")
        try:
            result = cli("doctor")
        finally:
            link.config_set("maxmemory", "0")
    assert "every command of every feature is allowed" in result.stdout
    assert "memory is" in result.stdout


def test_a_server_that_is_away_is_a_finding(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the others are examined all the same. Kept by Report.unreachable."""
    with_one_away(monkeypatch)
    result = cli("doctor", cli.url)
    assert result.exit_code == 1
    assert "  problem  server  Redis cannot be reached" in result.stdout
    assert "  ok      server " in result.stdout
    assert "  ok      rights " in result.stdout


def test_for_people(cli: CommandLine) -> None:
    """All topics, and the exit code of a server without a problem. The URL may be given in both ways."""
    result = cli("doctor", cli.url)
    assert result.exit_code == 0, result.output
    for topic in ("server", "topology", "eviction", "persistence", "replicas", "latency", "clock", "sizing", "rights"):
        assert f"  {topic}  " in result.stdout
    assert cli("doctor", "redis://localhost:1").exit_code == 69
