"""How anyone can see a name of a store that keeps the queues itself."""

from __future__ import annotations

from collections.abc import Sequence

from ...scripts.bid import told
from ...scripts.view import HolderInfo, NameView, WaiterInfo, short
from .shares import inside, weight_of
from .store import Place, Store, View

WANTS = {"lock": "task", "semaphore": "permits"}


async def see(store: Store, path: str, kind: str, name: str) -> NameView | None:
    """Return what the store has of a name, with its holders and its queue; None if that is nothing.

    Raises what the store does. Cost: a round trip, and one for each holder.
    """
    view = await store.look(path, notes=True)
    held = view.places[: inside(view.places, _capacity(kind, view))]
    left = [await store.remaining(place) for place in held]
    return _view(kind, name, view, held, left)


def _view(kind: str, name: str, view: View, held: Sequence[Place], left: Sequence[float]) -> NameView | None:
    if not view.places:
        return NameView(kind, name, "abandoned", fence=view.fence) if view.held else None
    capacity = _capacity(kind, view)
    used = sum(weight_of(place, capacity) for place in held)
    full = used >= capacity
    state = {"lock": "held", "rw": "write" if full else "read"}.get(kind, "full" if full else "held")
    holders = tuple(_holder(kind, place, ttl) for place, ttl in zip(held, left, strict=True))
    queue = tuple(_waiter(kind, at, place, capacity) for at, place in enumerate(view.places[len(held) :], 1))
    last = holders[-1]
    return NameView(
        kind,
        name,
        state,
        last.process,
        last.metadata,
        view.fence if kind == "rw" else last.fence,
        last.ttl,
        used=used if kind == "semaphore" else len(held),
        capacity=capacity if kind == "semaphore" else 1,
        waiting=len(queue),
        holders=holders,
        queue=queue,
    )


def _holder(kind: str, place: Place, ttl: float) -> HolderInfo:
    process, metadata = told(place.note)
    permits = place.weight if kind == "semaphore" else 1
    return HolderInfo(short(place.owner), process, metadata, place.order, place.depth, permits, ttl)


def _waiter(kind: str, position: int, place: Place, capacity: int) -> WaiterInfo:
    wants = WANTS.get(kind) or ("write" if weight_of(place, capacity) >= capacity else "read")
    permits = place.weight if kind == "semaphore" else 1
    return WaiterInfo(position, short(place.owner), told(place.note)[0], wants, permits, None, True)


def _capacity(kind: str, view: View) -> int:
    first = view.places[0].capacity if view.places else 0
    return first or (1 if kind == "lock" else 2**31)
