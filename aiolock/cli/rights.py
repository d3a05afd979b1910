"""Which commands a user may run, found out without running any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..backends.redis import PASSING, ErrorReply, code_of
from ..backends.survey import Reader
from ..scripts.keys import Keys
from ..scripts.view import Command
from .finding import Finding, Level

PROBED = "aiolock-doctor"
"""The name that is asked about; nothing is done to it."""
_PAGE = "see docs/reference/acl.md"


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
            text = "unknown: it allows no MULTI, with which they can be asked for without using them"
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
        Feature("conditions", (("HSET", condition, "a", "1"),), Level.ADVICE, "these do not work"),
        Feature("semaphores", tuple(_of_queues(semaphore)), Level.ADVICE, "these do not work"),
        Feature("read-write locks", tuple(_of_queues(rw)), Level.ADVICE, "these do not work"),
        Feature("latches", (("HSET", latch, "a", "1"), ("DEL", latch)), Level.ADVICE, "these do not work"),
        Feature("once()", (("HSET", once, "a", "1"), ("HMGET", once, "a")), Level.ADVICE, "run --once does not work"),
        Feature("waiting", (("SUBSCRIBE", channel),), Level.ADVICE, "waiters ask again and again"),
        Feature(
            "waiting", (("PUBLISH", channel, ""), ("PUBSUB", "NUMSUB", channel)), Level.ADVICE,
            "a grant is noticed up to a second late",
        ),
        Feature(
            "lost connections", (("CLIENT", "KILL", "ID", "0"), ("CLIENT", "INFO")), Level.ADVICE,
            "a request that was delayed on one may still run",
        ),
        Feature("the server", (("INFO",), ("ROLE",)), Level.ADVICE, "its version and its role are not checked"),
        Feature("looking", (("SCAN", "0"),), Level.ADVICE, "ls and top do not work"),
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
