"""Queues in ZooKeeper: below a name's node each place is an ephemeral sequential node; the number of the transaction
that made it is its order. Next to them a node `held` says that somebody has all of the name: it stays if that one
vanishes. The name's own data are the fence of the last one that had all of a read-write lock.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence

from ...clock import Clock, SystemClock, Timer, backoff
from ..coordinator.store import Away, Last, Lost, Moved, OwnPlace, Place, Refusal, Store, View
from ..coordinator.turns import Turns
from ..coordinator.values import value_of
from . import jute
from .address import ZooKeeperAddress
from .jute import Code, Mode, Op
from .link import Reply
from .mailbox import Mailbox, send
from .names import HELD, Node, nodes_in, prefix_of
from .nodes import both, children, fence_in, first_fence, make, places_of
from .session import Session, answer
from .sessions import Sessions


class ZooKeeperStore(Store):
    """One ensemble.

    Args:
        address: where it is.
        clock: of the deadlines.
    """

    name = "ZooKeeper"
    behind = "Restart its leader, which then counts on from a higher number"

    def __init__(self, address: ZooKeeperAddress, clock: Clock | None = None) -> None:
        self.address: str = f"ZooKeeper {address.shown}"
        self.clock: Clock = clock or SystemClock()
        self._source = address
        self._access = jute.acl("auth", "") if address.user else jute.acl("world", "anyone")

    async def open(self, moved: Moved, lost: Lost, back: Callable[[], None]) -> None:
        self._moved, self._on_back = moved, back
        self._turns = Turns()
        self._due: dict[OwnPlace, float] = {}  # when a place ends unless it is kept, even if our session lives on
        self._ending: dict[OwnPlace, asyncio.Task[None]] = {}  # those whose time is over
        self._inside: Counter[str] = Counter()  # own places, by the path of their queue
        self._mailboxes: list[Mailbox] = []
        self._timer: Timer | None = None
        self._sweeps_at = math.inf
        self._tasks: set[asyncio.Task[None]] = set()
        self._sessions = Sessions(self._source, self.clock, lost, self._back)
        await self._sessions.open()

    async def ready(self) -> None:
        await self._sessions.main().ready()

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._sessions.aclose({own.lasts for own in self._due})

    def _back(self) -> None:
        for mailbox in self._mailboxes:
            self._open(mailbox)
        self._on_back()

    def _spawn(self, job: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _node(self, path: str) -> str:
        return f"{self._source.root}/{path}"

    # Places.

    async def enter(self, own: OwnPlace, waits: bool) -> View:
        # Requests keep their order. But if there is no node for the name, it is made, and they are made again.
        if self._inside[own.path] and not self._turns.taken(own.path):
            return await self._enter(own, waits)
        async with self._turns.of(own.path):
            return await self._enter(own, waits)

    async def _enter(self, own: OwnPlace, waits: bool) -> View:
        if own in self._ending:  # it was asked for longer ago than it would last
            await asyncio.wait((self._ending[own],))
        if own.lasts is None or own.lasts.over:
            own.lasts, own.tainted = await self._sessions.keeping(own.ttl_ms / 1000), False
        session, path = await _ready(own), self._node(own.path)
        asks = not waits and own.weight >= own.capacity
        if own.tainted or asks:
            nodes = await self._find(session, own)
            if own.key or (asks and nodes):
                return View(await places_of(session, path, nodes, own))
        self._last_until(own, self.clock.now() + own.ttl_ms / 1000)
        while True:
            own.tainted = True
            body = jute.create(f"{path}/{prefix_of(own)}", _value(own), self._access, Mode.EPHEMERAL_SEQUENTIAL)
            asked = session.ask(Op.CREATE2, body)
            listed = session.ask(Op.GET_CHILDREN, jute.read(path))
            made = await answer(asked, Code.NO_NODE)
            own.tainted = False
            if isinstance(made, Reply):
                break
            await make(session, path, self._access, Mode.CONTAINER)
        own.key, own.order = made.body.text().rpartition("/")[2], made.body.stat().czxid
        names, seen = await children(listed)
        nodes = nodes_in(names)
        at = next((at for at, node in enumerate(nodes) if node.name == own.key), None)
        if at == 0 and not own.shared and own in self._due:
            self._claim(own, Last(0, HELD in names))
        if at is None or _weight(nodes[:at]) + own.weight <= own.capacity:  # nodes take what their names say at most
            places = [node.place(own.order if node.name == own.key else 0) for node in nodes]
        else:
            places = await places_of(session, path, nodes, own)
        return View(places, seen)

    async def _find(self, session: Session, own: OwnPlace) -> list[Node]:
        """Look for a place that an unanswered request may have made; return all."""
        if own.tainted:
            await answer(session.prove())  # whatever was asked for before is done by now, or never will be
        names, _ = await children(session.ask(Op.GET_CHILDREN, jute.read(self._node(own.path))))
        nodes = nodes_in(names)
        own.key, own.tainted = next((node.name for node in nodes if node.owner == own.owner), ""), False
        return nodes

    async def look(self, path: str, notes: bool = False) -> View:
        session, node = await self._main(), self._node(path)
        session.ask(Op.SYNC, jute.text(node))
        asked = session.ask(Op.GET_CHILDREN, jute.read(node))
        fences = [session.ask(Op.GET_DATA, jute.read(one)) for one in (node, f"{node}/{HELD}")]
        names, seen = await children(asked)
        places = await places_of(session, node, nodes_in(names), notes=notes)
        shared, held = await fence_in(fences[0]), await fence_in(fences[1])
        return View(places, seen, max(shared or 0, held or 0), held is not None)

    async def paths(self, root: str, after: str, most: int) -> tuple[list[str], str]:
        session, node = await self._main(), self._node(root)
        session.ask(Op.SYNC, jute.text(node))
        kinds, _ = await children(session.ask(Op.GET_CHILDREN, jute.read(node)))
        asked = {kind: session.ask(Op.GET_CHILDREN, jute.read(f"{node}/{kind}")) for kind in kinds}
        return [f"{root}/{kind}/{name}" for kind, one in asked.items() for name in (await children(one))[0]], ""

    async def claim(self, own: OwnPlace) -> bool:
        if own not in self._due or own.lasts.over:
            return False
        session, path = await _ready(own), self._node(own.path)
        proof = None if session.fresh else session.prove()
        asked = session.ask(Op.GET_DATA, jute.read(f"{path}/{own.key}"))
        fences = [session.ask(Op.GET_DATA, jute.read(one)) for one in (path, f"{path}/{HELD}")]
        if proof is not None:
            await answer(proof)
        if await answer(asked, Code.NO_NODE) is Code.NO_NODE:
            return False
        shared, held = await fence_in(fences[0]), await fence_in(fences[1])
        fence = held or 0
        if own.shared and own.whole:  # who shares it later must find the fence
            await answer(session.ask(Op.SET_DATA, jute.set_data(path, b"%d" % own.order)))
        elif own.shared:
            fence = max(shared or 0, fence) or await first_fence(session, path, own.order)
        if own.told:
            session.ask(Op.SET_DATA, jute.set_data(f"{path}/{own.key}", _value(own)))
        if own not in self._due:
            return False  # its time is over
        self._last_until(own, self.clock.now() + own.ttl_ms / 1000)
        self._claim(own, Last(fence, held is not None))
        return True

    def _claim(self, own: OwnPlace, last: Last) -> None:
        own.claim(last)
        if own.whole:  # not awaited: if it dies before that arrives, the next one does not know of it
            session: Session = own.lasts
            path, data = f"{self._node(own.path)}/{HELD}", b"%d" % own.order
            if last.held:
                session.ask(Op.SET_DATA, jute.set_data(path, data))
            else:
                session.ask(Op.CREATE2, jute.create(path, data, self._access, Mode.PERSISTENT))

    async def leave(self, own: OwnPlace, clean: bool) -> bool:
        if own.lasts is None or own.lasts.over:
            self._forget(own)
            return False
        session, path = await _ready(own), self._node(own.path)
        if not own.key and own.tainted:
            await self._find(session, own)
        there = False
        if own.key:
            node = f"{path}/{own.key}"
            there = (own.noted and clean and await both(session, Op.DELETE, jute.delete(node), path)) or (
                await answer(session.ask(Op.DELETE, jute.delete(node)), Code.NO_NODE) is not Code.NO_NODE
            )
        own.key = ""
        self._forget(own)
        return there

    async def keep(self, owns: Sequence[OwnPlace]) -> Sequence[bool]:
        began = self.clock.now()
        sessions: dict[Session, asyncio.Future[Reply]] = {}
        asked: dict[OwnPlace, asyncio.Future[Reply]] = {}
        for session in {own.lasts for own in owns if own in self._due}:
            await session.ready()
        for own in owns:
            if own not in self._due or own.lasts.over:
                continue
            if own.lasts not in sessions:
                sessions[own.lasts] = own.lasts.prove()
            asked[own] = own.lasts.ask(Op.GET_DATA, jute.read(f"{self._node(own.path)}/{own.key}"))
        for proof in sessions.values():
            await answer(proof)
        kept = set()
        for own, one in asked.items():
            if await answer(one, Code.NO_NODE) is not Code.NO_NODE and own in self._due:
                self._last_until(own, began + own.ttl_ms / 1000)
                kept.add(own)
        return [own in kept for own in owns]

    async def rewrite(self, own: OwnPlace) -> bool:
        if own not in self._due or own.lasts.over:
            return False
        session, path = await _ready(own), self._node(own.path)
        body = jute.set_data(f"{path}/{own.key}", _value(own))
        if own.lessened and await both(session, Op.SET_DATA, body, path):
            return True
        return await answer(session.ask(Op.SET_DATA, body), Code.NO_NODE) is not Code.NO_NODE

    async def remove(self, path: str, places: Sequence[Place]) -> int:
        session, node = await self._main(), self._node(path)
        asked = [session.ask(Op.DELETE, jute.delete(f"{node}/{place.key}")) for place in places]
        return sum([await answer(one, Code.NO_NODE) is not Code.NO_NODE for one in asked])

    async def remaining(self, place: Place) -> float:
        own = next((own for own in self._due if own.key == place.key), None)
        return float(place.lasts or 0.0) if own is None else max(0.0, self.expiry(own) - self.clock.now())

    def most_ms(self, own: OwnPlace) -> float:
        session: Session = own.lasts
        return 1000 * (session.longest + 0.001)

    def expiry(self, own: OwnPlace) -> float:
        return min(own.lasts.expiry, self._due[own]) if own in self._due else 0.0

    async def _main(self) -> Session:
        session = self._sessions.main()
        await session.ready()
        return session

    # Places that nobody keeps.

    def _last_until(self, own: OwnPlace, when: float) -> None:
        if own not in self._due:
            self._inside[own.path] += 1
        self._due[own] = when
        if when < self._sweeps_at:
            self._sweep_at(when)

    def _sweep_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._sweeps_at = when
        self._timer = self.clock.call_at(when, self._sweep) if self._due else None

    def _forget(self, own: OwnPlace) -> None:
        if self._due.pop(own, None) is not None:
            self._inside[own.path] -= 1
            if not self._inside[own.path]:
                del self._inside[own.path]

    def _sweep(self) -> None:
        """A session that has other places, too, lives on: what nobody keeps must be ended by us."""
        now = self.clock.now()
        for own in [own for own, due in self._due.items() if due <= now]:
            self._forget(own)
            self._ending[own] = self._spawn(self._end(own))
        self._sweep_at(min(self._due.values(), default=math.inf))

    async def _end(self, own: OwnPlace) -> None:
        attempt = 0
        try:
            while not own.lasts.over:
                try:
                    await self.leave(own, clean=False)
                    return
                except (Away, Refusal):
                    await asyncio.sleep(backoff(attempt, 0.05, 5.0))
                    attempt += 1
        finally:
            del self._ending[own]

    # Messages, and watches.

    def listen(self, mailbox: str, hear: Callable[[str], None]) -> None:
        made = Mailbox(self._node(mailbox), hear, lambda: self._open(made))
        self._mailboxes.append(made)
        self._open(made)

    def _open(self, mailbox: Mailbox) -> None:
        self._spawn(self._receive(mailbox))

    async def _receive(self, mailbox: Mailbox) -> None:
        try:
            session = await self._main()
            while True:
                asked = session.ask(Op.CREATE2, jute.create(mailbox.node, b"", self._access, Mode.EPHEMERAL))
                made = await answer(asked, Code.NO_NODE, Code.NODE_EXISTS)
                if made is not Code.NO_NODE:
                    break
                await make(session, mailbox.node.rpartition("/")[0], self._access, Mode.PERSISTENT)
            mailbox.read(session)
        except (Away, Refusal):
            return  # again when there is a connection

    async def send(self, mailbox: str, text: str) -> None:
        await send(await self._main(), self._node(mailbox), text)

    def watch(self, own: OwnPlace, keys: Sequence[str], seen: int) -> None:
        watches = own.lasts.watches if own.lasts is not None else None
        for key in [key for key, (of, _) in own.watched.items() if key not in keys or of is not watches]:
            of, watch = own.watched.pop(key)
            of.drop(f"{self._node(own.path)}/{key}", watch)
        for key in keys:
            if key not in own.watched and watches is not None:  # else it looks again once there is a connection

                def told(gone: bool, key: str = key) -> None:
                    own.watched.pop(key, None)
                    self._moved(own, key, gone)

                node = f"{self._node(own.path)}/{key}"
                own.watched[key] = watches, watches.add(node, seen, told, deletes_only=own.capacity == 1)


async def _ready(own: OwnPlace) -> Session:
    session: Session = own.lasts
    await session.ready()
    return session


def _value(own: OwnPlace) -> bytes:
    return value_of(own, lasts_ms=own.ttl_ms)


def _weight(nodes: Sequence[Node]) -> int:
    return sum(node.weight if node.owner else 2**32 for node in nodes)
