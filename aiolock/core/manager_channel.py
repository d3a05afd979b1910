"""What the server tells a manager on a channel of its own: whose turn it is, and which holds were ended by force."""

from __future__ import annotations

from ..backends.base import NO_MESSAGES
from ..clock import format_seconds
from ..errors import BackendError, LossReason
from ..owner import manager_of
from .fences import whole
from .holding.release import Release
from .runtime import KINDS, Runtime


def decline(runtime: Runtime, owner: str, key: str, capacity: int = 1) -> None:
    """Give a grant back, so that the next in line need not wait until it is over.

    After a failover the new master may have entries that left the queue while it did not hear of that; a request that
    comes late may bring one back, too.

    It can never end what a task has, or will have. An owner id is used once. From its first request on the manager
    knows it, as an entry, then as a hold, until its end is written; what it does not know has ended, or was detached.
    And the server ends only a grant that nobody has asked for or renewed; a detached lease was renewed.

    Args:
        runtime: the manager's.
        owner: who was granted, says a message; not one of the manager's entries.
        key: a key of the name.
        capacity: what the name holds in all.
    """
    if owner in runtime.holds or owner in runtime.ending or manager_of(owner) != runtime.binding.id:
        return
    kind, name = runtime.keys.read(key) or ("", "")
    if kind not in KINDS:
        runtime.fences.doubt()
        return
    # Not noted as ending: a multi lock's owner may be granted another of its names before this one's end is answered.
    calls = KINDS[kind].calls(runtime, name, 1, capacity)
    Release(runtime, calls, owner, runtime.limits.liveness_ms, "declined", tainted=False).write()


class ManagerChannel:
    """Hears the manager's messages, and passes them on.

    Args:
        runtime: the manager's.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def listen(self) -> None:
        """Subscribe.

        Raises:
            BackendError: no answer within `request_timeout`.
        """
        runtime = self._runtime
        patience = runtime.limits.request_timeout
        told = runtime.backend.subscribe(runtime.keys.manager(runtime.binding.id), self.on_message)
        try:
            await runtime.within(told, runtime.clock.now() + patience, lambda: self._untold(patience))
        except BackendError as error:
            if error.transient:
                raise
            runtime.fall_back(error)

    def on_message(self, payload: str | BackendError | None) -> None:
        """Handle a message. None: something may have been missed. An error: no more will come.

        `revoked <owner> <fence>`; `granted <owner> <fence> <abandoned> <key>`, or for a name with a capacity
        `admitted <owner> <serial> <fence> <ms from its last heartbeat> <abandoned> <capacity> <key>`: the owner must
        ask; `refresh <owner>`: one request could not admit all waiters, so this one must ask at once; `wanted
        <owner>`: another asks the holder to finish.
        """
        runtime = self._runtime
        words = payload.split(" ", 4) if isinstance(payload, str) else []
        if len(words) == 5 and words[0] == "granted":  # first: all others wait for the new holder
            entry, known = runtime.queue_entries.get(words[1]), whole(words[2])
            if known is None:
                runtime.fences.doubt()
            elif entry is not None:
                entry.told(known)
            else:
                decline(runtime, words[1], words[4])
            return
        if isinstance(payload, BackendError):
            runtime.fall_back(payload)
        match words:
            case ["revoked", owner, fence]:
                hold, entry = runtime.holds.get(owner), runtime.queue_entries.get(owner)
                if hold is not None and fence == str(hold.fence):
                    hold.lose(LossReason.REVOKED)
                elif entry is not None:
                    entry.revoke()
            case ["admitted", owner, _, fence, rest]:
                self._admitted(owner, fence, rest.split(" ", 3))
            case ["wanted", owner]:
                holder = runtime.holds.get(owner) or runtime.queue_entries.get(owner)
                if holder is not None:
                    holder.want()
            case ["refresh", owner]:
                entry = runtime.queue_entries.get(owner)
                if entry is not None:
                    entry.verify()
            case []:
                runtime.queue_entries.verify()
            case _:
                runtime.fences.doubt()

    def _admitted(self, owner: str, fence: str, rest: list[str]) -> None:
        runtime = self._runtime
        entry = runtime.queue_entries.get(owner)
        match [whole(one) for one in (fence, *rest[:1], *rest[2:3])]:
            case [int(known), int(), int(capacity)] if len(rest) == 4:
                if entry is None:
                    decline(runtime, owner, rest[3], capacity)
                else:
                    entry.told(known)
            case _:
                runtime.fences.doubt()

    def _untold(self, patience: float) -> BackendError:
        known = self._runtime.backend.unreachable
        why = known or f"is {self._runtime.backend.abilities.store} reachable? {NO_MESSAGES}"
        error = BackendError("", f"SUBSCRIBE got no answer within {format_seconds(patience)} s: {why}", transient=True)
        error.__cause__ = known
        return error
