"""What is read of a queue's nodes, and done to them."""

from __future__ import annotations

import asyncio

from ..coordinator.shares import inside
from ..coordinator.store import OwnPlace, Place
from ..coordinator.values import said_in
from . import jute
from .jute import Code, Mode, Op
from .link import Reply
from .names import HELD, Node
from .session import Session, answer


async def make(session: Session, path: str, access: bytes, mode: Mode) -> None:
    """Make a node, and those above it."""
    op = Op.CREATE_CONTAINER if mode is Mode.CONTAINER else Op.CREATE2
    while True:
        asked = session.ask(op, jute.create(path, b"", access, mode))
        if await answer(asked, Code.NO_NODE, Code.NODE_EXISTS) is not Code.NO_NODE:
            return
        await make(session, path.rpartition("/")[0], access, Mode.PERSISTENT)


async def places_of(
    session: Session, path: str, nodes: list[Node], own: OwnPlace | None = None, *, notes: bool = False
) -> list[Place]:
    """Read what is said of those that are in, and of an own place; or of all, with `notes`."""
    left, known = list(nodes), dict[str, Place]()
    while True:
        places = [known.get(node.name) or node.place() for node in left]
        capacity = next((node.capacity for node in left if node.capacity), 1)
        count = inside(places, capacity)
        mine = own.key if own is not None and not own.order else ""
        wanted = [node for at, node in enumerate(left) if notes or at < count or node.name == mine]
        unread = [node for node in wanted if node.name not in known]
        if not unread:
            return places
        asked = [session.ask(Op.GET_DATA, jute.read(f"{path}/{node.name}")) for node in unread]
        for node, one in zip(unread, asked, strict=True):
            found = await answer(one, Code.NO_NODE)
            if isinstance(found, Reply):
                data, stat = found.body.buffer(), found.body.stat()
                known[node.name] = node.place(stat.czxid, said_in(data))
                if own is not None and node.name == own.key:
                    own.order = stat.czxid
            else:
                left.remove(node)


async def first_fence(session: Session, path: str, fence: int) -> int:
    """All that share a name without a last writer have the same fence: the first one's."""
    while True:
        found = await answer(session.ask(Op.GET_DATA, jute.read(path)))
        assert isinstance(found, Reply)
        data, version = found.body.buffer(), found.body.stat().version
        if data.isdigit():
            return int(data)
        asked = session.ask(Op.SET_DATA, jute.set_data(path, b"%d" % fence, version))
        await answer(asked, Code.BAD_VERSION)


async def children(asked: asyncio.Future[Reply]) -> tuple[list[str], int]:
    """The names below a node, and the last change that is known."""
    found = await answer(asked, Code.NO_NODE)
    return (found.body.texts(), found.zxid) if isinstance(found, Reply) else ([], 0)


async def fence_in(asked: asyncio.Future[Reply]) -> int | None:
    """The fence in a node; 0 if there is none; None if there is no such node."""
    found = await answer(asked, Code.NO_NODE)
    if not isinstance(found, Reply):
        return None
    data = found.body.buffer()
    return int(data) if data.isdigit() else 0


async def both(session: Session, op: Op, body: bytes, path: str) -> bool:
    """Do something to a place that had all of a name, and note that this has ended cleanly. False if one of them is not
    there: then nothing is done.
    """
    parts = [(op, body), (Op.DELETE, jute.delete(f"{path}/{HELD}"))]
    done = await answer(session.ask(Op.MULTI, jute.multi(parts)), Code.NO_NODE)
    return isinstance(done, Reply) and done.body.failure() == 0
