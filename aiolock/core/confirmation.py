"""The first renewal of a grant out of the queue, which is provisional until then."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

from ..errors import BackendError
from ..scripts.base import Call
from ..scripts.outcomes import Failed, Missing, Renewed
from .entry_state import ASKING, QUEUED, State
from .grant import Asker, Grant
from .runtime import Runtime
from .telling import tell_granted


class Queue(Protocol):
    """The local queue, as a confirmation sees it."""

    runtime: Runtime

    def granted(self, entry: Any, grant: Grant) -> None:
        """The entry has the name."""


class Entry(Protocol):
    """The entry that was granted."""

    owner: str
    state: State
    grant: Grant | None

    @property
    def asker(self) -> Asker: ...

    @property
    def queue(self) -> Queue: ...

    def verify(self) -> None:
        """Ask the server at once, if it waits in the queue."""


class Confirmation:
    """Makes it last for the ttl of the waiter that takes it, and says who that is.

    Written at once: before the waiter runs, because its block may begin with a blocking call.

    Args:
        entry: the entry that was granted.
        grant: the grant.
    """

    __slots__ = ("_call", "_entry", "_grant")

    def __init__(self, entry: Entry, grant: Grant) -> None:
        asker = entry.asker
        self._entry = entry
        self._grant = grant
        call = asker.calls.confirmation(entry.owner, grant.outcome.fence, asker.policy.ttl_ms, asker.metadata)
        self._call: Call[Any] = call
        call.settle = self._settle
        entry.queue.runtime.backend.post(call)

    def _settle(self, result: list[Any] | BackendError) -> None:
        if isinstance(result, BackendError):
            self._unknown(result)
        else:
            self._judged(result[0], self._call.sent_at)

    def _judged(self, outcome: Any, sent_at: float) -> None:
        entry, grant, runtime = self._entry, self._grant, self._entry.queue.runtime
        if isinstance(outcome, Renewed):
            runtime.fences.heard(grant.outcome.fence)
        hold = runtime.holds.get(entry.owner)
        if hold is not None:
            hold.judged(outcome, sent_at)
            return
        if isinstance(outcome, Renewed):
            renewed = Grant(replace(grant.outcome, pttl=outcome.pttl), sent_at, entry.asker.policy)
            if entry.grant is grant:  # the waiter did not run yet
                entry.grant = renewed
            elif entry.state in (ASKING, QUEUED):
                entry.queue.granted(entry, renewed)
                tell_granted(runtime, entry)
        elif isinstance(outcome, Failed):
            self._unknown(BackendError(entry.asker.calls.name, outcome.error, outcome.transient))
        elif isinstance(outcome, Missing) and entry.grant is grant:
            grant.deadline = -math.inf  # its waiter sees that it came too late
        elif isinstance(outcome, Missing):
            # Whoever published it reached no one, and granted to another: ask, unless an answer is on its way.
            entry.verify()

    def _unknown(self, error: BackendError) -> None:
        entry, grant = self._entry, self._grant
        hold = entry.queue.runtime.holds.get(entry.owner)
        if hold is not None:
            hold.unknown(error)
        elif entry.grant is grant:
            grant.doubtful = True  # its waiter repeats it
        else:
            entry.verify()
