"""The places that this process has in queues, and the answers to requests about them: a place is in once what is before
it leaves enough.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ...clock import format_seconds
from ...errors import LossReason
from ...owner import manager_of
from ...scripts.outcomes import (
    AcquireOutcome,
    Asked,
    Ended,
    Failed,
    Finished,
    Gone,
    Granted,
    Held,
    Impossible,
    Kept,
    Missing,
    Queued,
    RefreshOutcome,
    Refused,
    Released,
    ReleaseOutcome,
    Renewed,
    RenewOutcome,
    Standing,
)
from ...scripts.view import NameView
from .calls import Ask, Enter, Keep, Leave, Look, Nest, Remove, See, Stay, Target, Want
from .paths import Paths
from .shares import inside, taken, weight_of
from .store import Away, OwnPlace, Place, Refusal, Store, View

Spawn = Callable[[Coroutine[Any, Any, None]], object]


class Places:
    """What this process has in the store's queues, by owner.

    Args:
        store: where the queues are.
        paths: names them.
        spawn: runs what nobody waits for.
        told: told of each place that is in by now, without having asked.
    """

    def __init__(self, store: Store, paths: Paths, spawn: Spawn, told: Callable[[OwnPlace], None]) -> None:
        self._store = store
        self._paths = paths
        self._spawn = spawn
        self._told = told
        self._own: dict[str, OwnPlace] = {}
        self._answers: dict[type[Want], Callable[[Any, float], Coroutine[Any, Any, Any]]] = {
            Enter: self._enter,
            Nest: self._nest,
            Leave: self._leave,
            Remove: self._remove,
            Ask: self._ask,
            Look: self._look,
            See: self._see,
            Keep: self._keep,
            Stay: self._stay,
        }

    async def answer(self, want: Want, sent_at: float) -> Any:
        """Do what is wanted, and return the outcome.

        Args:
            want: the request.
            sent_at: clock time from which its user counts.

        Raises:
            Away: the store gave no answer.
            Refusal: it will not do that.
        """
        return await self._answers[type(want)](want, sent_at)

    def moved(self, own: OwnPlace, key: str, gone: bool) -> None:
        """What a place watches is gone, or may have changed."""
        if self._own.get(own.owner) is not own or own.entered:
            return
        if gone:  # and nothing can have come before it since
            own.before = [place for place in own.before if place.key != key]
            self._decide(own)
        if own.entered:
            self._told(own)
        else:
            self._spawn(self._look_at(own))

    async def _look_at(self, own: OwnPlace) -> None:
        try:
            view = await self._store.look(own.path)
        except (Away, Refusal):
            return  # it looks again when the store is back, and with the next refresh
        if self._own.get(own.owner) is not own or own.entered:
            return
        if not self._judge(own, view):
            self._told(own)  # it asks, and learns that its place is gone
        elif own.entered:
            self._told(own)
        else:
            self._follow(own, view)

    # What a view says of a place.

    def _judge(self, own: OwnPlace, view: View) -> bool:
        """Learn from a view; return False if the place is not there."""
        for at, place in enumerate(view.places):
            if place.key == own.key:
                own.before = list(view.places[:at])
                if view.places[0].capacity:
                    own.capacity = view.places[0].capacity
                self._decide(own)
                return True
        return False

    def _decide(self, own: OwnPlace) -> None:
        if not own.entered and taken(own.before, own.capacity) + min(own.weight, own.capacity) <= own.capacity:
            own.entered = True
            self._store.watch(own, (), 0)

    def _follow(self, own: OwnPlace, view: View) -> None:
        """Watch what must go first: the place before it, if those two exclude each other whatever else there is; or the
        last one that is in its way; or else all that are in, and the place before it. Who is further behind than all of
        them let in waits until it is not: a place says when it is in. So few are woken by each that leaves.
        """
        before, capacity = own.before, own.capacity
        if own.weight >= capacity:
            watched = before[-1:]
        elif own.shared:
            watched = [place for place in before if weight_of(place, capacity) >= capacity][-1:]
        else:
            count = inside(before, capacity)
            near = len(before) - count < capacity
            watched = [*before[:count], *before[count:][-1:]] if near else before[-capacity:][:1]
        self._store.watch(own, [place.key for place in watched], view.seen)

    def _queued(self, own: OwnPlace) -> Queued:
        first = own.before[0]
        inside = sum(taken(own.before[: at + 1], own.capacity) <= own.capacity for at in range(len(own.before)))
        return Queued(0, own.order, len(own.before) - inside + 1, first.order, first.note, -1)

    def _left(self, own: OwnPlace, sent_at: float) -> int:
        """How many ms its user may count on from then on."""
        left = min(self._store.expiry(own) - sent_at, own.ttl_ms / 1000)
        own.until = sent_at + left
        return max(0, int(left * 1000))

    # Requests.

    async def _enter(self, want: Enter, sent_at: float) -> AcquireOutcome:
        on, bid, waits = want.on, want.bid, want.bid.liveness_ms != 0
        own = self._own.get(bid.owner)
        if own is None:
            own = OwnPlace(
                on.path, bid.owner, bid.ttl_ms, on.weight, on.capacity, bid.metadata, floor=bid.floor, shared=on.shared
            )
            self._own[bid.owner] = own
        if not own.entered:
            view = await (self._store.look(on.path) if own.key else self._store.enter(own, waits))
            if not self._judge(own, view):
                if own.key or waits:
                    return Finished()  # its place is gone: it starts again, with another id
                del self._own[bid.owner]
                return _refused(view.places)
            if on.weight > own.capacity:
                return await self._turn_away(own, Impossible(own.capacity))
            if own.order <= own.floor:
                raise Refusal(
                    f"{self._store.address} counts from {own.order}, but gave fence {own.floor} before: it has lost "
                    f"data, as after a restore from a backup. {self._store.behind}, and restart what keeps fences"
                )
        if own.entered:
            if not own.claimed and not await self._store.claim(own):
                return Finished()
            return Granted(own.fence, self._left(own, sent_at), own.abandoned, capacity=own.capacity)
        if not waits:
            return await self._turn_away(own, _refused(own.before))
        self._follow(own, view)
        return self._queued(own)

    async def _turn_away(self, own: OwnPlace, refusal: AcquireOutcome) -> AcquireOutcome:
        await self._store.leave(own, clean=False)
        self._own.pop(own.owner, None)
        return refusal

    async def _nest(self, want: Nest, sent_at: float) -> Kept | Missing:
        own = self._own.get(want.owner)
        if own is None or not own.claimed:
            return Missing(LossReason.DELETED)
        if want.ttl_ms > self._store.most_ms(own):
            raise Refusal(self._too_long(own, want.ttl_ms))
        own.depth, own.weight = want.depth, want.on.weight
        if not await self._store.rewrite(own):
            return Missing(await self._why(own))
        if want.ttl_ms > own.ttl_ms:
            own.ttl_ms = want.ttl_ms
            await self._store.keep([own])
        return Kept(self._left(own, sent_at))

    async def _leave(self, want: Leave, sent_at: float) -> ReleaseOutcome:
        own = self._own.get(want.owner)
        if own is None:
            return Missing(LossReason.DELETED)
        if want.left:
            own.lessened = own.lessened or (own.whole and want.on.weight < own.weight)
            own.depth, own.weight = want.left, want.on.weight
            return Kept(self._left(own, sent_at)) if await self._store.rewrite(own) else Missing(await self._why(own))
        self._store.watch(own, (), 0)
        own.tainted = own.tainted or want.tainted
        # An end that no task has entered before changes nothing of what it found.
        clean = want.ending == "clean" or (want.ending != "dirty" and not own.abandoned)
        there = await self._store.leave(own, clean)
        answer = Released(own.fence) if there or not own.claimed else Missing(await self._why(own))
        self._own.pop(want.owner, None)
        return answer

    async def _why(self, own: OwnPlace) -> LossReason:
        places = (await self._store.look(own.path)).places
        return LossReason.TAKEN_OVER if any(place.order > own.order for place in places) else LossReason.DELETED

    async def _keep(self, want: Keep, sent_at: float) -> list[RenewOutcome]:
        known = [(self._own.get(owner), ttl_ms) for owner, ttl_ms in want.wants]
        for own, ttl_ms in known:
            if own is not None and 0 < ttl_ms <= self._store.most_ms(own):
                own.ttl_ms = ttl_ms
        lasting = [own for own, ttl_ms in known if own is not None and ttl_ms]
        there = {own for own, kept in zip(lasting, await self._store.keep(lasting), strict=True) if kept}
        for own, ttl_ms in known:
            if (
                own is not None
                and not ttl_ms
                and any(place.key == own.key for place in (await self._store.look(own.path)).places)
            ):
                there.add(own)
        outcomes: list[RenewOutcome] = []
        for own, ttl_ms in known:
            if own is None:
                outcomes.append(Missing(LossReason.DELETED))
            elif own not in there:
                outcomes.append(Missing(await self._why(own)))
            elif ttl_ms > own.ttl_ms:
                outcomes.append(Failed(self._too_long(own, ttl_ms), transient=False))
            elif ttl_ms:
                outcomes.append(Renewed(self._left(own, sent_at)))
            else:  # only a look: it lasts no longer
                outcomes.append(Renewed(max(0, int((own.until - sent_at) * 1000))))
        return outcomes

    def _too_long(self, own: OwnPlace, ttl_ms: int) -> str:
        most = format_seconds(self._store.most_ms(own) / 1000)
        return (
            f"it began with a shorter ttl, so {self._store.name} keeps it for {most} s at most, not for "
            f"{format_seconds(ttl_ms / 1000)} s: acquire it with the longest ttl that you need"
        )

    async def _stay(self, want: Stay, sent_at: float) -> list[RefreshOutcome]:
        known = [self._own.get(owner) for owner, _ in want.wants]
        await self._store.keep([own for own in known if own is not None])
        views = {path: await self._store.look(path) for path in {path for _, path in want.wants}}
        outcomes: list[RefreshOutcome] = []
        for own, (_, path) in zip(known, want.wants, strict=True):
            if own is None or not self._judge(own, views[path]):
                outcomes.append(Gone())
            elif own.entered:
                outcomes.append(Granted(own.order, self._left(own, sent_at), own.abandoned))  # so it asks
            else:
                self._follow(own, views[path])
                outcomes.append(self._queued(own))
        return outcomes

    async def _remove(self, want: Remove, sent_at: float) -> bool | Ended:
        on = want.on
        view = await self._store.look(on.path)
        places = view.places
        ended = [place for place in places[: inside(places, on.capacity)] if want.fence in (0, place.order)]
        count = await self._store.remove(on.path, ended) if ended else 0
        for place in ended:
            await self._tell(place, f"revoked {place.owner} {_fence(place, on, view)}")
        return count > 0 if on.kind == "lock" else Ended(count, 0)

    async def _ask(self, want: Ask, sent_at: float) -> Asked:
        places = (await self._store.look(want.on.path)).places
        if not places:
            return Asked("", 0)
        holder = places[0]
        if want.holder in ("", holder.owner):
            await self._tell(holder, f"wanted {holder.owner}")
        return Asked(holder.owner or holder.key, holder.order)

    async def _tell(self, place: Place, text: str) -> None:
        if place.owner:  # else it is another program's, which has no mailbox
            await self._store.send(self._paths.mailbox(manager_of(place.owner)), text)

    async def _look(self, want: Look, sent_at: float) -> Standing:
        on = want.on
        view = await self._store.look(on.path)
        places = view.places
        capacity = places[0].capacity or on.capacity if places else on.capacity
        count = inside(places, capacity)
        waiters = [place.owner for place in places[count:]]
        # The store may have our place before its answer has reached whoever waits.
        waiting = want.waiting or next((owner for owner in waiters if owner in self._own), "")
        rank = waiters.index(waiting) + 1 if waiting in waiters else None
        held, longest = None, -1.0
        for place in places[:count]:
            left = await self._store.remaining(place)
            if left > longest:
                longest = left
                held = Held(place.owner, place.depth, int(left * 1000), place.order, place.note)
        used = taken(places[:count], capacity)
        fence = view.fence if on.shared else held.fence if held else 0
        return Standing(count, used, capacity, fence, len(waiters), rank, held)

    async def _see(self, want: See, sent_at: float) -> NameView | None:
        from .seen import see  # only who looks needs it

        return await see(self._store, want.on.path, want.on.kind, want.on.name)


def _fence(place: Place, on: Target, view: View) -> int:
    """That of what it holds."""
    return view.fence if on.shared and place.weight < on.capacity else place.order


def _refused(places: Sequence[Place]) -> Refused:
    first = next(iter(places), None)
    return Refused(-1, first.order if first else 0, first.note if first else "")
