"""What a server is asked before it keeps locks, and what its answers mean: INFO, the line to it, and your rights."""

from __future__ import annotations

import enum
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..backends.base import Abilities
from ..backends.reader import Reader
from ..backends.redis import OLDEST, PASSING, ErrorReply, ServerInfo, code_of
from ..core.policy import check_margin
from ..errors import BackendError
from ..scripts.keys import Keys
from ..scripts.view import Command

PINGS, LONGEST = 100, 3.0
"""How many round trips are measured, and the seconds after which no more are."""
REQUEST_TIMEOUT = 5.0
"""A manager's default."""
FAR = 1.0
"""Seconds that clocks may be apart without a word."""
PROBED = "aiolock-doctor"
"""The name whose rights are asked for; nothing is done to it."""
_FORKS = {"valkey_version": "Valkey", "redict_version": "Redict", "redis_version": "Redis"}
_PAGE = "see docs/reference/acl.md"


class Level(enum.StrEnum):
    """How bad it is. Each is also its own text."""

    OK = "ok"
    """As it should be."""
    ADVICE = "advice"
    """Locks work, but something is lost, or will be in a bad hour."""
    PROBLEM = "problem"
    """Locks do not work, or may vanish."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Attributes:
        topic: what it is about, in a word.
        level: how bad it is.
        text: what was found.
        advice: what to do about it; "" for nothing.
    """

    topic: str
    level: Level
    text: str
    advice: str = ""


def examine_file(abilities: Abilities) -> Iterator[Finding]:
    """Return what can be said of a file of locks that could be opened and written.

    Args:
        abilities: of a backend on it.
    """
    yield Finding("file", Level.OK, f"can be written, with a write-ahead log, by SQLite {sqlite3.sqlite_version}")
    if abilities.messages:
        yield Finding("messages", Level.OK, "processes wake each other by Unix sockets next to the file")
    else:
        advice = "where the system has such sockets, a shorter path helps"
        yield Finding("messages", Level.ADVICE, "no Unix sockets there: waiters poll", advice)


def examine(server: ServerInfo, asked_as: str) -> Iterator[Finding]:
    """Return what it says.

    Args:
        server: without fields if INFO is denied.
        asked_as: "standalone", "cluster" or "sentinel".
    """
    if not server.fields:
        yield Finding("server", Level.ADVICE, "unknown: INFO is denied", "allow +info")
        return
    yield _version(server)
    yield _mode(server, asked_as)
    yield _memory(server)
    yield _persistence(server.fields)
    yield _replicas(server.fields)


def _version(server: ServerInfo) -> Finding:
    info = server.fields
    product, version = next(((_FORKS[name], info[name]) for name in _FORKS if name in info), ("unknown", "0"))
    if server.outdated:
        return Finding("server", Level.PROBLEM, f"{product} {version} is too old", f"Redis {OLDEST} or newer is needed")
    return Finding("server", Level.OK, f"{product} {version}, up for {_days(info.get('uptime_in_seconds', '0'))}")


def _mode(server: ServerInfo, asked_as: str) -> Finding:
    if server.mode == "sentinel":
        return Finding(
            "topology", Level.PROBLEM, "this is a Sentinel, which keeps no locks", "add --sentinel, --service"
        )
    if server.mode == "cluster" and asked_as != "cluster":
        advice = "add --cluster; in code, LockManager.cluster([url, …])"
        return Finding("topology", Level.PROBLEM, "this is a node of a cluster", advice)
    if server.replica:
        return Finding("topology", Level.PROBLEM, "this is a replica", "connect to the master")
    kind = "named by Sentinels" if asked_as == "sentinel" else server.mode or "standalone"
    return Finding("topology", Level.OK, f"a master, {kind}")


def _memory(server: ServerInfo) -> Finding:
    info, policy, most = server.fields, server.policy, server.memory
    evicted = info.get("evicted_keys", "0")
    if server.evicts:
        return Finding(
            "eviction", Level.PROBLEM,
            f"maxmemory-policy {policy}: locks vanish when memory is full ({evicted} keys so far)",
            "maxmemory-policy noeviction, or a server of their own for locks",
        )  # fmt: skip
    if policy != "noeviction":
        return Finding("eviction", Level.OK, f"maxmemory-policy {policy}, but without a limit nothing is evicted")
    full = int(info.get("used_memory", "0") or 0)
    if most and full > 0.9 * most:
        return Finding(
            "eviction", Level.ADVICE, f"noeviction, but memory is {100 * full // most} % full",
            "a full server refuses new locks: raise maxmemory",
        )  # fmt: skip
    return Finding("eviction", Level.OK, "noeviction" + ("" if most else ", no memory limit"))


def _persistence(info: Mapping[str, str]) -> Finding:
    if info.get("aof_enabled") == "1":
        return Finding("persistence", Level.OK, "append-only file; only appendfsync always forgets nothing in a crash")
    advice = "holders are cancelled, but another may acquire first: use fences, or an append-only file"
    return Finding("persistence", Level.ADVICE, "no append-only file: a restart forgets locks", advice)


def _replicas(info: Mapping[str, str]) -> Finding:
    number = info.get("connected_slaves", "0")
    if number == "0":
        return Finding("replicas", Level.OK, "none: no failover can lose a lock, and none helps in an outage")
    lost = "a failover can lose a grant that they do not have yet"
    return Finding("replicas", Level.ADVICE, f"{number} connected: {lost}", "min_replicas=1 or more, or fences")


def _days(seconds: str) -> str:
    whole = int(seconds or 0)
    return f"{whole // 86400} days" if whole >= 2 * 86400 else f"{whole // 3600} h" if whole >= 7200 else f"{whole} s"


@dataclass(frozen=True, slots=True)
class Measurement:
    """The line to a server.

    Attributes:
        pings: how many round trips were measured.
        p50: the median, in seconds.
        p99: the 99th percentile.
        ahead: seconds by which the server's clock is ahead of ours.
        unsure: by how much that may be wrong.
    """

    pings: int
    p50: float
    p99: float
    ahead: float
    unsure: float


async def measure(master: Reader) -> Measurement:
    """Send up to 100 requests, one after another.

    Raises:
        BackendError: it does not answer.
    """
    trips: list[float] = []
    best, ahead, began = float("inf"), 0.0, time.perf_counter()
    while len(trips) < PINGS and (time.perf_counter() - began < LONGEST or not trips):
        wall, start = time.time(), time.perf_counter()
        (clock,) = await master.ask([("TIME",)])
        trip = time.perf_counter() - start
        trips.append(trip)
        match clock:
            case [bytes() as seconds, bytes() as micros]:
                if trip < best:
                    best, ahead = trip, int(seconds) + int(micros) / 1e6 - (wall + trip / 2)
            case error:
                raise BackendError("", f"Redis refused TIME: {error}")
    ordered = sorted(trips)
    return Measurement(
        len(trips), ordered[len(trips) // 2], ordered[min(len(trips) - 1, len(trips) * 99 // 100)], ahead, best / 2
    )


def judge_line(measured: Measurement) -> Iterator[Finding]:
    """What the figures mean for ttl and margin."""
    slow = measured.p99 > REQUEST_TIMEOUT / 20
    shortest = max(0.1, 20 * measured.p99)
    ttl = max(0.5, 3 * shortest)
    text = f"{_ms(measured.p50)} at the median, {_ms(measured.p99)} at the 99th percentile of {measured.pings}"
    yield Finding("latency", Level.ADVICE if slow else Level.OK, text, "move closer to the server" if slow else "")
    far = abs(measured.ahead) > FAR
    yield Finding(
        "clock",
        Level.ADVICE if far else Level.OK,
        f"the server's is {_ms(abs(measured.ahead))} {'ahead' if measured.ahead > 0 else 'behind'}, "
        f"give or take {_ms(measured.unsure)}",
        "locks do not compare the two, but a corrected clock jumps, and a jump of the server's may end leases: "
        "let NTP keep both" if far else "",
    )  # fmt: skip
    fits = "are barely safe on this connection" if slow else "are safe on this connection"
    yield Finding("sizing", Level.OK, f"the defaults (ttl 30 s, margin 3 s, request_timeout 5 s) {fits}")
    least = f"ttl {ttl:.1f} s, margin {check_margin('', None, ttl):.2f} s, request_timeout {shortest:.1f} s"
    yield Finding("sizing", Level.OK, f"shortest safe values: {least}")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


@dataclass(frozen=True, slots=True)
class Feature:
    """Commands that belong together.

    Attributes:
        name: what needs them.
        commands: as they would be sent.
        level: how bad it is if one is denied.
        lost: what is lost then.
    """

    name: str
    commands: tuple[Command, ...]
    level: Level
    lost: str


async def denied(master: Reader, commands: tuple[Command, ...]) -> list[str] | None:
    """Return the names of the commands that the server denies; None if it does not say.

    What it would refuse only now (a full memory, a cluster without a majority) is not denied.

    The server judges a command when it is queued in a transaction, and a transaction that is discarded does nothing.
    But without a transaction the commands would run: so that it has begun is made sure first.

    Cost: two round trips. What is denied is listed in its ACL LOG.
    """
    (begun,) = await master.ask([("MULTI",)])
    if isinstance(begun, ErrorReply):
        return None
    replies = await master.ask([*commands, ("DISCARD",)])
    return [
        _name_of(command)
        for command, reply in zip(commands, replies, strict=False)
        if isinstance(reply, ErrorReply) and code_of(reply) not in PASSING and "inside a transaction" not in str(reply)
    ]


async def examine_rights(master: Reader, namespace: str, cluster: bool) -> Iterator[Finding]:
    """Return what is denied, feature by feature, and what that costs."""
    features = features_of(namespace, cluster)
    findings = []
    for feature in features:
        missing = await denied(master, feature.commands)
        if missing is None:
            text = "unknown: without MULTI they cannot be checked without using them"
            return iter([Finding("rights", Level.ADVICE, text, f"allow +multi +discard for this, or {_PAGE}")])
        if missing:
            text = f"{feature.name}: denied {', '.join(missing)}; {feature.lost}"
            findings.append(Finding("rights", feature.level, text, _PAGE))
    return iter(findings or [Finding("rights", Level.OK, "every command of every feature is allowed")])


def features_of(namespace: str, cluster: bool) -> list[Feature]:
    """What is asked for; the same commands as on the page."""
    keys = Keys(namespace)
    lock, latch, once, condition = (keys.of(kind, PROBED).lock for kind in ("lock", "latch", "once", "condition"))
    semaphore, rw = (keys.of(kind, PROBED).state for kind in ("semaphore", "rw"))
    channel = keys.manager(PROBED)
    features = [
        Feature(
            "scripts", (("EVALSHA", "0" * 40, "0"), ("SCRIPT", "LOAD", "return 1")), Level.ADVICE,
            "scripts are sent as text, which needs EVAL",
        ),
        Feature("locks", tuple(_of_locks(lock)), Level.PROBLEM, "locks cannot be acquired, or not left"),
        Feature(
            "conditions", (("HSET", condition, "a", "1"), ("HMGET", condition, "a")), Level.ADVICE,
            "these do not work",
        ),
        Feature("semaphores", tuple(_of_queues(semaphore)), Level.ADVICE, "these do not work"),
        Feature("read-write locks", tuple(_of_queues(rw)), Level.ADVICE, "these do not work"),
        Feature("latches", (("HSET", latch, "a", "1"), ("DEL", latch)), Level.ADVICE, "these do not work"),
        Feature("once()", (("HSET", once, "a", "1"), ("HMGET", once, "a")), Level.ADVICE, "run --once does not work"),
        Feature("waiting", (("SUBSCRIBE", channel),), Level.ADVICE, "waiters poll"),
        Feature(
            "waiting", (("PUBLISH", channel, ""), ("PUBSUB", "NUMSUB", channel)), Level.ADVICE,
            "a grant is noticed up to a second late",
        ),
        Feature(
            "lost connections", (("CLIENT", "KILL", "ID", "0"), ("CLIENT", "INFO")), Level.ADVICE,
            "a request that was delayed on one may still run",
        ),
        Feature("the server", (("INFO",), ("ROLE",)), Level.ADVICE, "its version and its role are not checked"),
        Feature("looking", (("SCAN", "0"), ("MGET", lock)), Level.ADVICE, "ls and top do not work"),
    ]  # fmt: skip
    if cluster:
        sharded = (("SSUBSCRIBE", lock), ("SPUBLISH", lock, ""), ("PUBSUB", "SHARDNUMSUB", lock))
        features.append(Feature("the cluster", (("CLUSTER", "SLOTS"),), Level.PROBLEM, "it cannot be used"))
        features.append(Feature("the cluster", sharded, Level.ADVICE, "messages go to all nodes"))
    return features


def _of_locks(key: str) -> Iterator[Command]:
    yield from (("GET", key), ("SET", key, "a"), ("EXISTS", key), ("PEXPIRE", key, "1"), ("PTTL", key), ("TIME",))
    yield from (("HSET", key, "a", "1"), ("HGET", key, "a"), ("HDEL", key, "a"), ("HLEN", key), ("HGETALL", key))
    yield from (("ZADD", key, "1", "a"), ("ZCARD", key), ("ZRANGE", key, "0", "0"), ("ZRANK", key, "a"))
    yield from (("ZREM", key, "a"), ("ZSCORE", key, "a"))


def _of_queues(key: str) -> Iterator[Command]:
    yield from (("HMGET", key, "a"), ("HSET", key, "a", "1"), ("HDEL", key, "a"), ("DEL", key), ("PEXPIRE", key, "1"))
    yield from (("ZADD", key, "1", "a"), ("ZCOUNT", key, "0", "1"), ("ZREM", key, "a"), ("ZRANGE", key, "0", "0"))
    yield from (("ZRANGEBYSCORE", key, "0", "1"), ("ZREVRANGEBYSCORE", key, "1", "0"))


def _name_of(command: Command) -> str:
    return " ".join(command[:2]) if command[0] in ("SCRIPT", "CLIENT", "PUBSUB", "CLUSTER") else command[0]
