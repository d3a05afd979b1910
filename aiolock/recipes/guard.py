"""Writes to the lock's own Redis that the server does only while the lease holds."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol, cast
from weakref import WeakKeyDictionary

from ..backends.memory import MemoryBackend
from ..core.holding.hold import Hold
from ..core.lease import Lease
from ..core.policy import check_duration, milliseconds
from ..errors import ConfigurationError, LockLost, NotOwned, note
from ..primitives.kinds import FULL
from ..scripts.base import Reply
from ..scripts.guard import COMMANDS, Permit, Verdict, around, permit, verdict

Word = str | bytes | int | float
"""A key, a value or an argument, as a client takes it."""

MOST_WORDS = 7_000
"""How many arguments one command may have: Lua's stack has room for 8,000."""

MOST_NAMES = 64
"""How many names one script reads."""

_ALL_KEYS = "DEL"
_COMMANDS = frozenset({"SET", _ALL_KEYS, "HSET", "INCRBY", "LPUSH", "XADD", "EXPIRE", "PEXPIRE"})
_numbers = itertools.count(1)
_turns: WeakKeyDictionary[Hold, asyncio.Lock] = WeakKeyDictionary()


class RedisClient(Protocol):
    """A `redis.asyncio.Redis`, `redis.asyncio.RedisCluster`, or the same of valkey-py."""

    def execute_command(self, *args: Word) -> Awaitable[object]:
        """Send one command, and return its reply."""


def guard(lease: Lease, client: RedisClient) -> GuardedWrites:
    """Return writes that Redis itself refuses once the lease no longer holds.

    Each write is a script that first checks whether the lock still has this lease's owner and fence, and that its time
    is not over. So not even a process that was frozen between its last check and the write can overwrite what a later
    holder wrote.

    Args:
        lease: of a `lock()`, `fair_lock()` or `multi_lock()`, or of the `write` side of an `rw_lock()`.
        client: your own client, of the server and database that keep the lock. With `memory://` locks each write is
            checked here and then sent as a plain command: enough for tests, but not atomic.

    Raises:
        ConfigurationError: no lease of an event loop; one that excludes no one (a semaphore's, a reader's), has more
            than 64 names, or is of a quorum; a pipeline, a blocking client, or one with another database.

    Cost: no I/O.

    Example:
        async with locks.lock("order:42") as lease:
            orders = guard(lease, client)
            await orders.hset("{order:42}:state", {"paid": 1})
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"guard() needs the lease that `async with lock as lease:` gives, not {lease!r}")
    runtime, calls = lease._gate.runtime, lease._calls
    runtime.backend.abilities.need_queues(lease.name, "guarded writes")
    runtime.backend.abilities.need_redis(lease.name, "guarded writes")
    if len(calls.names) > MOST_NAMES:
        raise ConfigurationError(
            lease.name,
            f"guard() reads each name of a multi lock with each write, so it may have {MOST_NAMES} names at most, and "
            f"{lease.name!r} has {len(calls.names)}",
        )
    if calls.kind not in ("lock", "multi") and not (calls.kind == "rw" and calls.weight >= FULL):
        raise ConfigurationError(
            lease.name,
            f"this lease of {lease.name!r} shares the lock: guard() needs one of a lock, a multi lock, or the "
            "write side of a read-write lock",
        )
    if hasattr(client, "execute") or not hasattr(client, "aclose"):
        raise ConfigurationError(
            lease.name, f"guard() needs an asyncio client that sends at once, not {type(client).__name__}"
        )
    settings = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
    db = int(settings.get("db") or 0)
    if db != runtime.keys.db and not isinstance(runtime.backend, MemoryBackend):
        raise ConfigurationError(
            lease.name,
            f"this client has database {db}, and lock {lease.name!r} is in {runtime.keys.db}: give guard() a client "
            "of the same server and database",
        )
    return GuardedWrites(lease, client)


class GuardedWrites:
    """What `guard()` returns: a few write commands, and your own Lua.

    All writes of one owner go one after another, in the order of the calls. Each has a number, so that a copy, which
    your client sends if a reply was lost, does nothing: it gets the first one's reply. A *new* call is a new write, so
    after an error of your client (`ConnectionError`, `TimeoutError`) it is unknown whether the write was done.

    Each method raises:

    - `LockLost`: the lease was lost, and nothing was written. If it was Redis that refused, a guarded block is
      cancelled, as after every loss.
    - `NotOwned`: the lease was released or detached; or it waited for a condition before this write had its turn.
    - `ConfigurationError`: a ttl that cannot be; the client is of another server; a command has too many arguments; or
      in a cluster, a key is not in the lock's slot: give it the lock's name in braces, as `{order:42}:state`. Nothing
      was written.
    - `BackendError`: Redis refused the write, and could not be asked why. Nothing was written.
    - What your client raises, such as `redis.exceptions.ResponseError` for a key of another type.

    Cancellation: the write may still be done, but not after a later one. Cost: one round trip; two more if Redis
    refuses. On the server, one read and two small writes more than the command itself.
    """

    def __init__(self, lease: Lease, client: RedisClient) -> None:
        self._lease = lease
        self._client = client
        self._hold = lease._hold
        self._permit: Permit = _permit(lease)

    async def set(
        self,
        key: str | bytes,
        value: Word,
        *,
        ttl: float | timedelta | None = None,
        ex: int | timedelta | None = None,
        px: int | timedelta | None = None,
        nx: bool = False,
        xx: bool = False,
    ) -> bool:
        """Set a key.

        Args:
            key: which.
            value: to what.
            ttl: seconds until it expires, from 0.001; or `ex`, the same in redis-py's words, or `px`, milliseconds.
            nx: only if it does not exist.
            xx: only if it exists.

        Returns:
            False if `nx` or `xx` kept it from that.
        """
        words: list[Word] = ["SET", key, value]
        times = [None if px is None else px if isinstance(px, timedelta) else px / 1000, ex, ttl]
        given = [time for time in times if time is not None]
        if len(given) > 1 or (nx and xx):
            raise ConfigurationError(self._lease.name, "set() takes one of ttl, ex and px, and one of nx and xx")
        if given:
            words += ["PX", self._ms(given[0])]
        if nx or xx:
            words.append("NX" if nx else "XX")
        (reply,) = await self.write(words)
        return bool(reply)

    async def delete(self, *keys: str | bytes) -> int:
        """Delete keys; return how many there were."""
        return await self._number("DEL", *keys)

    async def hset(
        self,
        key: str | bytes,
        fields: Mapping[str, Word] | str | bytes | None = None,
        value: Word | None = None,
        *,
        mapping: Mapping[str, Word] | None = None,
    ) -> int:
        """Set fields of a hash, by a mapping, or one field by its name and value; return how many are new."""
        return await self._number("HSET", key, *self._fields(fields, value), *_flat(mapping or {}))

    async def incrby(self, key: str | bytes, amount: int = 1) -> int:
        """Add to a number; return the sum."""
        return await self._number("INCRBY", key, amount)

    async def lpush(self, key: str | bytes, *values: Word) -> int:
        """Put values at the head of a list; return its length."""
        return await self._number("LPUSH", key, *values)

    async def xadd(self, key: str | bytes, fields: Mapping[str, Word]) -> str:
        """Append an entry to a stream; return its id."""
        (entry,) = await self.write(("XADD", key, "*", *_flat(fields)))
        return entry.decode() if isinstance(entry, bytes) else str(entry)

    async def expire(self, key: str | bytes, ttl: float | timedelta) -> bool:
        """Let a key expire after `ttl` seconds, from 0.001; return False if there is none."""
        return await self._number("PEXPIRE", key, self._ms(ttl)) == 1

    async def write(self, *commands: Sequence[Word]) -> list[object]:
        """Do several writes in one script: all or, if the lease no longer holds, none.

        Redis does not roll back: if one is refused, such as for a key of another type, those before it stay.

        Args:
            commands: each a command and its arguments, as `("INCRBY", "stock:7", -1)`. Of `SET`, `DEL`, `HSET`,
                `INCRBY`, `LPUSH`, `XADD`, `EXPIRE` and `PEXPIRE`. Each has at most 7,000 arguments.

        Returns:
            The raw reply of each; a sum of 2**53 or more comes as text.
        """
        keys: list[str | bytes] = []
        args: list[Word] = []
        for command, *words in commands:
            if command not in _COMMANDS or not words:
                raise ConfigurationError(
                    self._lease.name,
                    f"guard() has no {command!r}: it writes with {', '.join(sorted(_COMMANDS))}, or your own run(lua)",
                )
            if len(words) > MOST_WORDS:
                raise ConfigurationError(
                    self._lease.name,
                    f"one {command} may have {MOST_WORDS} arguments under a lock, not {len(words)}: write() takes "
                    "several of them, which are done together",
                )
            keys += cast("list[str | bytes]", words if command == _ALL_KEYS else words[:1])
            args += [1 + len(words), command, *words]
        done, reply = await self._send(COMMANDS, keys, args)
        if done:
            return cast("list[object]", reply)
        return [await self._client.execute_command(*command) for command in commands]

    async def run(self, lua: str, keys: Sequence[str | bytes] = (), args: Sequence[Word] = ()) -> object:
        """Run your own Lua, with its `KEYS` and `ARGV`, if the lease still holds.

        What it returns is kept for an hour, for a copy of the request: return little. It has no `#!lua` line, and names
        all its keys in `keys`.

        Returns:
            What it returns, as your client decodes it.
        """
        done, reply = await self._send(lua, keys, args)
        return reply if done else await self._client.execute_command("EVAL", lua, len(keys), *keys, *args)

    async def _number(self, command: str, key: str | bytes | None = None, *words: Word) -> int:
        """Do a write whose reply is a number; without a key, none."""
        if key is None:
            return 0
        (reply,) = await self.write((command, key, *words))
        return int(cast("int | str | bytes", reply))

    async def _send(self, lua: str, keys: Sequence[str | bytes], args: Sequence[Word]) -> tuple[bool, object]:
        """Write if the lease holds; return the reply, or that the caller must write by itself."""
        lease, hold = self._lease, self._lease._hold
        runtime = lease._gate.runtime
        runtime.binding.check_here(lease.name, "asyncio.run_coroutine_threadsafe()")
        if hold is not self._hold:  # it waited for a condition, and has a new fence
            self._hold, self._permit = hold, _permit(lease)
        permitted = self._permit
        self._check_slots(keys)
        async with _turns.setdefault(hold, asyncio.Lock()):
            for _ in range(2):
                lease.ensure()
                if lease._hold is not hold:
                    raise NotOwned(
                        lease.name,
                        f"lock {lease.name!r} was given up for a while before this write's turn: nothing was written",
                    )
                number = next(_numbers)
                if isinstance(runtime.backend, MemoryBackend):
                    plain, reply = True, None
                    outcome = await runtime.ask(permitted.call(lease.name, number), "writing under")
                else:
                    plain = False
                    outcome, reply = await self._ask_server(permitted, lua, number, keys, args)
                if outcome is Verdict.DONE:
                    return not plain, reply
                try:
                    await self._verify()
                except LockLost as error:
                    note(error, "Redis refused this write: nothing was written")
                    raise
        raise ConfigurationError(
            lease.name,
            f"the client's server knows nothing of this lease of lock {lease.name!r}, and nothing was written: give "
            "guard() a client of the same server and database",
        )

    async def _ask_server(
        self, permitted: Permit, lua: str, number: int, keys: Sequence[str | bytes], args: Sequence[Word]
    ) -> tuple[Verdict, object]:
        script = around(permitted.script, lua)
        count = len(permitted.keys) + len(keys)
        words = (count, *permitted.keys, *keys, *permitted.args(number), *args)
        try:
            reply = await self._client.execute_command("EVALSHA", script.sha, *words)
        except Exception as error:
            if type(error).__name__ != "NoScriptError":  # of redis-py or valkey-py
                raise
            reply = await self._client.execute_command("EVAL", script.lua, *words)
        answer = cast("list[object]", reply)
        return verdict(cast(Reply, answer)), answer[1] if len(answer) > 1 else None

    async def _verify(self) -> None:
        """Ask the lock's own server, and mark the loss if it does not hold; a fixed lease is not extended."""
        lease, hold = self._lease, self._lease._hold
        lease.ensure()
        batch, part = hold.part()
        call = batch((part,))
        call.name = lease.name  # a batch has none
        (outcome,) = await lease._gate.runtime.ask(call, "checking")
        hold.judged(outcome, call.sent_at)
        if hold.reason is not None:
            raise hold.loss()
        hold.raise_failure()

    def _check_slots(self, keys: Sequence[str | bytes]) -> None:
        slot, own = self._lease._gate.runtime.backend.slot, self._permit.keys
        for key in (*own, *keys):
            text = key.decode(errors="replace") if isinstance(key, bytes) else key
            if slot(text) != slot(own[0]):
                tag = own[0][own[0].index("{") : own[0].index("}") + 1]
                raise ConfigurationError(
                    self._lease.name,
                    f"key {text!r} is in another slot of the cluster than lock {self._lease.name!r}, so one script "
                    f"cannot write it: begin it with {tag!r}",
                )

    def _fields(self, fields: Mapping[str, Word] | str | bytes | None, value: Word | None) -> list[Word]:
        if not isinstance(fields, str | bytes) and value is None:
            return _flat(fields or {})
        if not isinstance(fields, str | bytes) or value is None:
            raise ConfigurationError(self._lease.name, "hset() takes a mapping, or the name of a field and its value")
        return [fields, value]

    def _ms(self, ttl: float | timedelta) -> int:
        return milliseconds(check_duration(self._lease.name, "guard()'s ttl", ttl, least=0.001))

    def __repr__(self) -> str:
        return f"<GuardedWrites of {self._lease!r}>"


def _permit(lease: Lease) -> Permit:
    hold, calls = lease._hold, lease._calls
    names = hold.calls.names or (hold.calls.name,)
    return permit(lease._gate.runtime.keys, calls.kind, names, hold.owner, hold.fence, calls.weight)


def _flat(fields: Mapping[str, Word]) -> list[Word]:
    return [word for field in fields.items() for word in field]
