"""A TCP proxy in front of a server that does to requests and replies what networks do."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Protocol, Self, cast

from .resp import Framer

Direction = Literal["requests", "replies"]
Action = Literal["drop", "hold", "lose", "cut"]
Matching = bytes | Callable[[bytes], bool] | None

NO_LINGER = struct.pack("ii", 1, 0)
SUBSCRIBES = (b"subscribe", b"unsubscribe", b"psubscribe", b"punsubscribe", b"ssubscribe", b"sunsubscribe")


class Frames(Protocol):
    """Knows where a request or an answer ends."""

    def feed(self, chunk: bytes) -> list[bytes]: ...

    def pushes(self, frame: bytes) -> bool: ...


Framing = Callable[[Direction], Frames]


class Rule:
    """Applies to the frames that match, until it is lifted or has applied often enough.

    Attributes:
        frames: the raw frames it was applied to, in order.
    """

    def __init__(self, action: Action, direction: Direction, matching: Matching, times: int | None) -> None:
        self.action = action
        self.direction = direction
        self.frames: list[bytes] = []
        self._matching = matching
        self._times = times
        self._lifted = asyncio.Event()
        self._applied = asyncio.Condition()

    def __repr__(self) -> str:
        return f"<Rule {self.action} {self.direction} hits={len(self.frames)} lifted={self._lifted.is_set()}>"

    def lift(self) -> None:
        """Stop matching, and forward what is held."""
        self._lifted.set()

    async def hit(self, times: int = 1) -> None:
        """Wait until it was applied `times` times."""
        async with self._applied:
            await self._applied.wait_for(lambda: len(self.frames) >= times)

    def matches(self, direction: Direction, frame: bytes) -> bool:
        if direction != self.direction or self._lifted.is_set():
            return False
        if self._times is not None and len(self.frames) >= self._times:
            return False
        if isinstance(self._matching, bytes):
            return self._matching in frame
        return self._matching is None or self._matching(frame)

    async def note(self, frame: bytes) -> None:
        async with self._applied:
            self.frames.append(frame)
            self._applied.notify_all()

    async def lifted(self) -> None:
        await self._lifted.wait()


class _Side(asyncio.Protocol):
    """One end of a link; keeps what arrived, and when, even after the connection has ended."""

    def __init__(self, opened: Callable[[_Side], None] | None = None) -> None:
        self.arrived: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        self._opened = opened
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self._opened is not None:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        self.arrived.put_nowait((self._loop.time(), data))

    def connection_lost(self, error: Exception | None) -> None:
        self.arrived.put_nowait(None)

    def write(self, data: bytes) -> None:
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        self.transport.close()

    def reset(self) -> None:
        """Close with a RST, so that the peer does not see an orderly end."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and not self.transport.is_closing():
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()


class _Link:
    """One client's connection and its counterpart to the server."""

    def __init__(self, client: _Side, server: _Side) -> None:
        self.client = client
        self.server = server
        self.sent = 0  # forwarded requests that a reply answers
        self.answered = 0
        self.lose: int | None = None  # number of the first reply to swallow
        self.cut: int | None = None  # number of the reply that is replaced by a reset
        self.silent: set[Direction] = set()  # TCP has no gaps: what follows a lost frame never comes either

    def reset(self) -> None:
        self.client.reset()
        self.server.reset()


class FaultProxy:
    """Forwards a loopback port to a server, one whole request or reply at a time, and applies rules to them.

    Example:
        >>> async with FaultProxy(server.host, server.port) as proxy:
        ...     rule = proxy.hold_matching(lease_owner)
        ...     ...                          # the client sends
        ...     await rule.hit()             # the request is here, the server has not seen it
        ...     proxy.reset(upstream=False)  # the client gives up, the network does not
        ...     proxy.heal()                 # now the server sees it

    Attributes:
        url: what clients connect to.
        port: its port.
        connections: how many it has accepted so far.
        chunks: how many client-to-server reads so far: nearly one per write of the client.
        requests: how many whole requests came from clients so far.
    """

    def __init__(self, host: str, port: int, *, tls: ssl.SSLContext | None = None, framing: Framing = Framer) -> None:
        self._upstream = host, port
        self._framing = framing
        self._tls = tls
        self._rules: list[Rule] = []
        self._delays: dict[Direction, float] = {"requests": 0.0, "replies": 0.0}
        self._links: dict[asyncio.Task[None], _Link | None] = {}
        self._refusing = False
        self._changed = asyncio.Condition()
        self.connections = 0
        self.chunks = 0
        self.requests = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Side(self._accept), "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"{'rediss' if self._tls else 'redis'}://127.0.0.1:{self.port}/0"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)
        await asyncio.sleep(0)  # connection_lost of what was just reset

    @property
    def open(self) -> int:
        """How many connections there are now, including those that the client has left but whose bytes are held."""
        return len(self._links)

    def move(self, host: str, port: int) -> None:
        """Lead new connections to another server, as a name does that moves; open ones stay where they are."""
        self._upstream = host, port

    def delay(self, direction: Direction, seconds: float) -> None:
        """Forward each chunk of a direction `seconds` after it came; 0 ends the delay for later chunks."""
        self._delays[direction] = seconds

    def drop(self, direction: Direction, times: int | None = 1, matching: Matching = None) -> Rule:
        """Swallow the next `times` frames of a direction, and all that follows them; keep the connection.

        Only messages, which no request waits for, are swallowed one by one.
        """
        return self._add("drop", direction, matching, times)

    def blackhole(self, direction: Direction) -> Rule:
        """Swallow everything in a direction. If you lift the rule, new connections work."""
        return self.drop(direction, None)

    def lose_reply(self, times: int | None = 1, matching: Matching = None) -> Rule:
        """Forward the next `times` requests; swallow the answers and all that follows them; keep the connection."""
        return self._add("lose", "requests", matching, times)

    def cut(self, times: int | None = 1, matching: Matching = None) -> Rule:
        """Forward the next request, and reset the connection when the server has answered: executed, reply lost."""
        return self._add("cut", "requests", matching, times)

    def hold(self, direction: Direction, times: int | None = None, matching: Matching = None) -> Rule:
        """Hold frames, and what follows them on the connection, until you lift the rule.

        The server gets held requests when you lift it, even if the client is gone by then.
        """
        return self._add("hold", direction, matching, times)

    def hold_matching(self, matching: Matching, direction: Direction = "requests") -> Rule:
        """Like `hold`, for the frames that contain `matching`, or for which it returns true."""
        return self.hold(direction, None, matching)

    async def wait_held(self) -> None:
        """Wait until something is held."""
        async with self._changed:
            await self._changed.wait_for(lambda: any(r.action == "hold" and r.frames for r in self._rules))

    async def connected(self, times: int) -> None:
        """Wait until `times` connections were accepted since the start."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.connections >= times)

    def refuse(self) -> None:
        """Reset every new connection as soon as it is accepted, until `heal`."""
        self._refusing = True

    def redirect(self, host: str, port: int) -> None:
        """Send new connections to another server, as a name or a relay does after a failover."""
        self._upstream = host, port

    def reset(self, *, upstream: bool = True) -> None:
        """Reset every connection.

        Args:
            upstream: False keeps the server's side open: it has not heard of the reset, and may still get what is held.
        """
        for link in self._links.values():
            if link is not None:
                link.client.reset()
                if upstream:
                    link.server.reset()

    def heal(self) -> None:
        """Lift every rule, end delays, accept connections again."""
        for rule in self._rules:
            rule.lift()
        self._rules.clear()
        self._delays = {"requests": 0.0, "replies": 0.0}
        self._refusing = False

    def _add(self, action: Action, direction: Direction, matching: Matching, times: int | None) -> Rule:
        rule = Rule(action, direction, matching, times)
        self._rules.append(rule)
        return rule

    def _accept(self, client: _Side) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(client), name=f"proxy link {self.connections}")
        self._links[task] = None
        task.add_done_callback(self._links.pop)

    async def _serve(self, client: _Side) -> None:
        await self._notify()
        if self._refusing:
            client.reset()
            return
        try:
            loop, (host, port) = asyncio.get_running_loop(), self._upstream
            if host.startswith("/"):
                _, server = await loop.create_unix_connection(_Side, host)
            else:
                _, server = await loop.create_connection(_Side, host, port)
        except OSError:
            client.reset()
            return
        link = _Link(client, server)
        me = asyncio.current_task()
        assert me is not None
        self._links[me] = link
        requests = asyncio.create_task(self._pump("requests", link, client, server))
        try:
            await self._pump("replies", link, server, client)
        except asyncio.CancelledError:
            link.reset()
            raise
        finally:
            requests.cancel()
            await asyncio.gather(requests, return_exceptions=True)
            link.client.close()
            link.server.close()

    async def _pump(self, direction: Direction, link: _Link, source: _Side, sink: _Side) -> None:
        framer = self._framing(direction)
        while (arrival := await source.arrived.get()) is not None:
            at, chunk = arrival
            frames = framer.feed(chunk)
            if direction == "requests":
                self.chunks += 1
                self.requests += len(frames)
            wait = at + self._delays[direction] - asyncio.get_running_loop().time()
            if self._delays[direction] and wait > 0:
                await asyncio.sleep(wait)
            passing: list[bytes] = []
            for frame in frames:
                if direction == "replies" and not self._count_reply(link, frame, framer):
                    if link.cut == link.answered:
                        sink.write(b"".join(passing))
                        link.reset()
                        return
                    continue
                rule = next((rule for rule in self._rules if rule.matches(direction, frame)), None)
                if rule is not None:
                    if rule.action == "hold":
                        sink.write(b"".join(passing))
                        passing.clear()
                    await self._apply(rule, frame)
                    if rule.action == "drop" and not framer.pushes(frame):
                        link.silent.add(direction)
                if direction in link.silent or (rule is not None and rule.action == "drop"):
                    continue
                if direction == "requests":
                    self._count_request(link, frame, rule)
                passing.append(frame)
            sink.write(b"".join(passing))
        sink.close()

    async def _apply(self, rule: Rule, frame: bytes) -> None:
        await rule.note(frame)
        await self._notify()
        if rule.action == "hold":
            await rule.lifted()

    def _count_request(self, link: _Link, frame: bytes, rule: Rule | None) -> None:
        # Pushes answer a subscription, and they are not counted.
        link.sent += not any(word in frame[:40].lower() for word in SUBSCRIBES)
        if rule is not None and rule.action == "lose":
            link.lose = link.lose or link.sent
        elif rule is not None and rule.action == "cut":
            link.cut = link.sent

    def _count_reply(self, link: _Link, frame: bytes, framer: Frames) -> bool:
        """Whether the client may see it."""
        if framer.pushes(frame):
            return True
        link.answered += 1
        if link.answered == link.lose:
            link.silent.add("replies")
        return link.answered != link.cut and "replies" not in link.silent

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
