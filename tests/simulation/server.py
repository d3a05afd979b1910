"""The server: a store, the scripts, and the few other commands that the library sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiolock.scripts import commands, condition, latch, lock, multi, once, outcome, queue
from aiolock.scripts.base import Script, as_text
from aiolock.scripts.store import ErrorReply, Store
from tests.support import locks, redisson_wire

from .network import Connection
from .process import Process
from .truth import RedisTruth, Truth
from .world import World

SCRIPTS: dict[str, Script[Any]] = {
    script.sha: script
    for family in (lock, queue, multi, latch, condition, once, outcome, redisson_wire)
    for script in family.SCRIPTS
}
EPOCH_US = 1_750_000_000_000_000


class Refusal(Exception):
    """An error reply."""


class Server:
    """One server.

    Args:
        world: its time.
        kill: CLIENT KILL is allowed.
        around: called with "before" or "after", the number of the script, and the process, around each execution; and
            with "sent" and the number of the piece when a process has sent one.

    Attributes:
        down: it accepts no connections.
        busy_until: until when it does nothing.
        refuses: what it answers instead of running scripts; "" for nothing.
        jumped_us: how far its clock was set.
        runs: how many scripts it has run.
        forced: called with the owner and the fence of a hold that is taken away.
        truth: what it keeps.
    """

    def __init__(self, world: World, kill: bool, around: Callable[[str, int, Process], None]) -> None:
        self.world = world
        self.store = Store(self.wall_us)
        self.truth: Truth = RedisTruth(self.store)
        self.down = False
        self.busy_until = 0.0
        self.refuses = ""
        self.jumped_us = 0
        self.runs = 0
        self.forced: Callable[[str, int], None] = lambda owner, fence: None
        self._pieces = 0
        self.connections: dict[int, Connection] = {}
        self._count = 0
        self._restarts = 1
        self._kill = kill
        self._around = around
        self._scripts: set[str] = set()
        self.released: set[str] = set()  # owners that a release of their own has ended
        self._answering: Connection | None = None
        self._output: list[bytes] = []

    def wall_us(self) -> int:
        """Its wall clock."""
        return EPOCH_US + round(self.world.now * 1_000_000) + self.jumped_us

    # Connections.

    def accept(self, process: Process) -> Connection:
        """A client has connected."""
        self._count += 1
        connection = Connection(process, self, self._count)
        self.connections[connection.id] = connection
        process.connections.append(connection)
        self.world.note("connect", who=connection.name)
        return connection

    def disconnected(self, connection: Connection) -> None:
        """Its client is gone."""
        if connection.open:
            connection.open = False
            self.world.note("disconnect", who=connection.name)
            del self.connections[connection.id]
            for channel, deliver in connection.channels.items():
                self.store.unsubscribe(channel.decode(), deliver)
            connection.channels.clear()

    def stop(self, *, forgets: bool) -> None:
        """The server dies; everybody is disconnected."""
        self.down = True
        for connection in list(self.connections.values()):
            connection.break_off(0)
            self.disconnected(connection)
        self._scripts.clear()
        self._count, self._restarts = self._count + 1000, self._restarts + 1
        if forgets:
            self.forget()

    def forget(self) -> None:
        """As FLUSHALL does; but how many permits of Redisson's there are is said again, as by a service that starts."""
        permits = self.store.exists("p")
        self.store.flush()
        if permits:
            self.store.incr("p", 3)

    def forget_scripts(self) -> None:
        """As SCRIPT FLUSH does."""
        self._scripts.clear()

    # Commands.

    def sent(self, connection: Connection) -> None:
        """A piece is on its way."""
        self._pieces += 1
        self._around("sent", self._pieces, connection.process)

    def feed(self, connection: Connection, data: bytes) -> None:
        """Bytes have arrived."""
        connection.reader.feed(data)
        self._answering, self._output = connection, []
        while connection.open and (command := connection.reader.gets()) is not False:
            try:
                answer = self._execute(connection, command)
            except Refusal as refusal:
                self._output.append(b"-%s\r\n" % str(refusal).encode())
            else:
                self._output.append(answer)
        output, self._answering = b"".join(self._output), None
        if output:
            connection.down.send(output)

    def _execute(self, connection: Connection, command: list[bytes]) -> bytes:
        match [command[0].upper(), *command[1:]]:
            case [b"EVALSHA", sha, count, *rest]:
                return self._run(connection, sha.decode(), [part.decode() for part in rest], int(count))
            case [b"SCRIPT", b"LOAD", source]:
                for sha, script in SCRIPTS.items():
                    if script.lua.encode() == source:
                        self._scripts.add(sha)
                        return encode(sha)
                raise Refusal("ERR unknown script")
            case [b"SUBSCRIBE", channel]:
                return self._subscribe(connection, channel)
            case [b"UNSUBSCRIBE", channel]:
                deliver = connection.channels.pop(channel, None)
                if deliver is not None:
                    self.store.unsubscribe(channel.decode(), deliver)
                return push(b"unsubscribe", channel, len(connection.channels))
            case [b"PING", *rest]:
                return encode(rest[0] if rest else b"PONG")
            case [b"CLIENT", b"INFO"]:
                return encode(f"id={connection.id} addr=simulated:{connection.id} db=0")
            case [b"CLIENT", b"KILL", b"ID", number, *_]:
                return self._kill_client(int(number))
            case [b"INFO", b"server"]:
                return encode(f"redis_version:7.4.0\r\nredis_mode:standalone\r\nrun_id:{self._restarts:040x}\r\n")
            case [b"INFO", b"replication"]:
                return encode("role:master\r\nconnected_slaves:0\r\n")
            case [b"INFO", *_]:
                return encode("maxmemory:0\r\nmaxmemory_policy:noeviction\r\n")
            case [b"ROLE"]:
                return encode(["master", 0, []])
        raise Refusal(f"ERR unknown command '{command[0].decode()}'")

    def _run(self, connection: Connection, sha: str, words: list[str], keys: int) -> bytes:
        if sha not in self._scripts:
            raise Refusal("NOSCRIPT No matching script. Please use EVAL.")
        if self.refuses:
            raise Refusal(self.refuses)
        self.runs += 1
        script, number = SCRIPTS[sha], self.runs
        self._around("before", number, connection.process)
        if not connection.open:
            return b""
        held = locks.of_key(self.store, words[0]) if script is lock.FORCE_RELEASE else None
        on_redisson = redisson_wire.owners(self.store, words[0]) if script in redisson_wire.FORCING else []
        try:
            reply = commands.run(self.store, script.lua, words[:keys], words[keys:])
        except ErrorReply as error:
            raise Refusal(str(error)) from None
        if held is not None and reply == 1:
            self.forced(held.holder, held.fence)
        for owner in on_redisson:
            self.forced(owner, 0)
        given = script.name == "release" and "back" in words[keys:]  # only what it had reserved: it waits on
        if script.name == "release" and not given and str(as_text(reply)).startswith("released"):
            self.released.add(words[keys:][0])
        self.world.note(script.name, f"{number}: {short(words[keys:])} -> {short(reply)}", connection.name)
        self._around("after", number, connection.process)
        return encode(reply)

    def _subscribe(self, connection: Connection, channel: bytes) -> bytes:
        def deliver(payload: str) -> None:
            message = push(b"message", channel, payload.encode())
            if connection is self._answering:
                self._output.append(message)
            else:
                connection.down.send(message)

        if channel not in connection.channels:
            connection.channels[channel] = deliver
            self.store.subscribe(channel.decode(), deliver)
        return push(b"subscribe", channel, len(connection.channels))

    def _kill_client(self, number: int) -> bytes:
        if not self._kill:
            raise Refusal("NOPERM this user has no permissions to run the 'client|kill' command")
        victim = self.connections.get(number)
        if victim is None:
            return encode(0)
        self.world.note("kill", who=victim.name)
        victim.killed()
        return encode(1)


def encode(value: Any) -> bytes:
    """Return a reply as RESP3."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"$%d\r\n%s\r\n" % (len(value), value)
    if isinstance(value, int):
        return b":%d\r\n" % value
    if value is None:
        return b"_\r\n"
    return b"*%d\r\n%s" % (len(value), b"".join(map(encode, value)))


def push(*parts: bytes | int) -> bytes:
    """Return a push as RESP3."""
    return b">%d\r\n%s" % (len(parts), b"".join(map(encode, parts)))


def short(words: Any) -> str:
    """Return what a script was given or gives, without the long parts of ids."""
    text = " ".join(map(short, words)) if isinstance(words, list) else as_text(words)
    return text if len(text) < 160 else f"{text[:160]}…"
