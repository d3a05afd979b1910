"""What a side does to the server, step by step: what it leaves there, what it tells, and with which scripts.

`python -m tests.redisson.trace 4.8.0` writes down what a version of Redisson does, for you to look at the difference.
"""

from __future__ import annotations

import functools
import re
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import redis

from aiolock.testing.server import RedisServer
from tests.support.scripting import wait_until

from .peer import PATIENCE, Peer, Said, start_java

GOLDEN = Path(__file__).parent / "golden"
EFFECTS = GOLDEN / "effects.txt"
OWNER = re.compile(r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}:\d+(?:~\d+)?")
END = "redisson: the step is done"
"""What is told on this channel comes after what the step told."""
TTL_MS = 6000
"""Of what is traced for its scripts: it is renewed before it is over."""
LASTING_MS = 600_000
"""Of what is traced for its effects: nobody renews it meanwhile, and it says 10 minutes for a whole minute."""
STEPS = """
a lock lock:L
a lock lock:L
b tryLock lock:L
b waits lock lock:L
a unlock lock:L
a unlock lock:L
b entered
a forceUnlock lock:L
a lock lock:{tag}L
a unlock lock:{tag}L
a lock fair:F
a lock fair:F
b tryLock fair:F
b waits lock fair:F
c waits lock fair:F
a unlock fair:F
a unlock fair:F
b entered
b unlock fair:F
c entered
a waits lock fair:F
b forceUnlock fair:F
a entered
a unlock fair:F
a lock read:R
a lock read:R
b tryLock write:R
c waits lock write:R
a unlock read:R
a unlock read:R
c entered
b tryLock read:R
c unlock write:R
a lock write:R
a forceUnlock write:R
a lockAndGetToken fenced:T
b tryLock lock:T
a unlock fenced:T
b lockAndGetToken fenced:T
b unlock fenced:T
a trySetPermits permits:P 1
b trySetPermits permits:P 2
a lock permits:P
b tryLock permits:P
b waits lock permits:P
a unlock permits:P
b entered
b unlock permits:P
a trySetCount latch:C 2
b trySetCount latch:C 3
b waits await latch:C
a countDown latch:C
c countDown latch:C
b entered
a countDown latch:C
""".strip().splitlines()
"""A task or thread, and what it does; `waits` to be let in, until it has `entered`."""

RENEWED = ("lock:A", "fair:B", "read:C", "write:D")


class Trace:
    """Runs the steps in tasks, alone on a server.

    Args:
        peers: for each task, the process that has it.
        link: a client of the server.
    """

    def __init__(self, peers: Mapping[str, Peer], link: redis.Redis) -> None:
        self._peers = peers
        self._link = link
        self._names: dict[str, str] = {}  # the task of each owner
        self._waiting: dict[str, Future[Said]] = {}
        self._told = link.pubsub(ignore_subscribe_messages=True)

    def lines(self) -> Iterator[str]:
        """What each step does."""
        self._told.psubscribe("redisson*")
        while not self._link.pubsub_numpat():
            continue
        for step, following in zip(STEPS, [*STEPS[1:], ""], strict=True):
            task, command, *words = step.split()
            yield f"{step}{self._do(task, command, words)}"
            comes, _, entered = following.partition(" ")
            if entered == "entered":
                wait([self._waiting[comes]], PATIENCE)
            yield from self._state(comes if entered == "entered" else task)
        self._told.close()

    def _do(self, task: str, command: str, words: list[str]) -> str:
        if command == "entered":
            self._waiting.pop(task).result(PATIENCE)
            return ""
        if command == "waits":
            before = self._listening()
            self._waiting[task] = self._peers[task].ask(task, *words)
            # Who entered before may stop listening only now: so this is about one more.
            while all(count <= before.get(channel, 0) for channel, count in self._listening().items()):
                time.sleep(0.01)
            return ""
        answer = self._peers[task].do(task, command, *words)
        return f" -> {answer}" if answer else ""

    def _listening(self) -> dict[bytes, int]:
        channels = self._link.pubsub_channels("redisson*")
        return dict(self._link.pubsub_numsub(*channels))

    def _state(self, task: str) -> Iterator[str]:
        for key in sorted(self._link.scan_iter(), key=self._rank):
            text = key.decode()
            if not text.startswith(("redisson_unlock_latch", "aiolock_dead")):
                pttl = self._link.pttl(key)
                left = f", {-(-pttl // 60_000)} min left" if pttl >= 0 else ""
                yield self._named(f"  {text}: {self._value(key)}{left}", task)
        self._link.publish(END, "")
        while (message := self._told.get_message(timeout=PATIENCE)) is None or message["channel"].decode() != END:
            if message is not None:
                yield self._named(f"  {message['channel'].decode()} <- {message['data'].decode()}", task)

    @staticmethod
    def _rank(key: bytes) -> tuple[bool, bytes]:
        return b"queue" not in key, key

    def _value(self, key: bytes) -> Any:
        match self._link.type(key):
            case b"hash":
                return {field.decode(): value.decode() for field, value in self._link.hgetall(key).items()}
            case b"list":
                return [item.decode() for item in self._link.lrange(key, 0, -1)]
            case b"zset":  # deadlines, or ids of permits: each side has its own
                items = (item.decode(errors="replace") for item in self._link.zrange(key, 0, -1))
                return sorted(self._names.get(item, "?") for item in items)
        return self._link.get(key).decode()

    def _named(self, line: str, task: str) -> str:
        """With the tasks instead of their owners: an owner that was not there before is that of this step."""
        return OWNER.sub(lambda owner: f"<{self._names.setdefault(owner[0], task)}>", line)


def in_one(peer: Peer) -> dict[str, Peer]:
    """All tasks of the steps in one process."""
    return dict.fromkeys("abc", peer)


def scripts_of(peer: Peer, link: redis.Redis) -> str:
    """The Lua that a JVM loads for all of the steps, and to renew."""
    link.script_flush()
    with link.monitor() as monitor:
        for _ in Trace(in_one(peer), redis.Redis.from_url(_url(link))).lines():
            pass
        for what in RENEWED:
            peer.do("a", "lock", what)
        for what in RENEWED:
            _, _, name = what.partition(":")
            wait_until(functools.partial(_renewed, link, name, link.pttl(name)), PATIENCE)
            peer.do("a", "unlock", what)
        link.echo("the end")
        lua = set()
        for command in iter(monitor.next_command, None):
            if command["command"] == "ECHO the end":
                return "\n\n".join(sorted(lua)) + "\n"
            if command["command"].upper().startswith("SCRIPT LOAD "):
                lua.add(command["command"][12:].replace(";", ";\n"))
    raise AssertionError


def _renewed(link: redis.Redis, name: str, pttl: int) -> bool:
    return link.pttl(name) > pttl


def _url(link: redis.Redis) -> str:
    where = link.connection_pool.connection_kwargs
    return f"redis://{where['host']}:{where['port']}/{where.get('db', 0)}"


def main() -> None:
    (version,) = sys.argv[1:]
    with RedisServer.start() as server:
        link = redis.Redis.from_url(server.url)
        with start_java(version, server.url, LASTING_MS) as java:
            EFFECTS.write_text("\n".join(Trace(in_one(java), link).lines()) + "\n", encoding="utf-8")
        link.flushall()
        with start_java(version, server.url, TTL_MS) as java:
            known = GOLDEN / f"scripts-{version.partition('.')[0]}.txt"
            known.write_text(scripts_of(java, link), encoding="utf-8")


if __name__ == "__main__":
    main()
