"""Requests that many make together: holds that are renewed, entries that stay in queues."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from ..backends.base import Backend
from ..errors import BackendError
from ..log import Log
from ..scripts.base import Combiner, Part
from ..scripts.joint import JointPart
from ..scripts.outcomes import Missing, Renewed
from .calls import Batch
from .observers import Observers

logger: Log = Log("aiolock.renewals")
CHUNK = 320
"""Renewals in one request: 10,000 leases in 32 of them, each a few milliseconds of the server's time."""


class Judged(Protocol):
    """What is renewed."""

    def judged(self, outcome: Any, sent_at: float) -> None:
        """The verdict on a request written at `sent_at`."""

    def unknown(self, error: BackendError) -> None:
        """No verdict: try again."""


class JointRenewal:
    """Passes on a loss as soon as one slot tells of it, and an extension once all slots have extended it.

    Args:
        renewal: what is renewed.
        count: in how many slots.
    """

    __slots__ = ("_doubtful", "_left", "_pttl", "_renewal", "_sent_at")

    def __init__(self, renewal: Judged, count: int) -> None:
        self._renewal = renewal
        self._left = count
        self._pttl = math.inf
        self._sent_at = math.inf
        self._doubtful = False  # one slot gave no verdict, and the renewal knows

    def judged(self, outcome: Any, sent_at: float) -> None:
        """The verdict of one slot on what was written at `sent_at`."""
        if isinstance(outcome, Renewed):
            self._left -= 1
            self._pttl, self._sent_at = min(self._pttl, outcome.pttl), min(self._sent_at, sent_at)
            if not self._left:
                self._renewal.judged(Renewed(int(self._pttl)), self._sent_at)
        elif isinstance(outcome, Missing) or not self._doubtful:
            self._doubtful = True
            self._renewal.judged(outcome, sent_at)

    def unknown(self, error: BackendError) -> None:
        """One slot gave no verdict."""
        if not self._doubtful:
            self._doubtful = True
            self._renewal.unknown(error)


class Renewable(Judged, Protocol):
    """Something that asks the server together with others: a hold to extend, an entry to keep in a queue."""

    def part(self) -> tuple[Batch, Part]:
        """How to combine many into one request, and this one's line in it."""


Asked = tuple[Judged, Part]
"""The one that asked, and its part of the request."""


class Renewals:
    """Writes them in batches, and passes each its own verdict.

    Args:
        backend: the server.
        observers: told of all verdicts together.
    """

    def __init__(self, backend: Backend, observers: Observers) -> None:
        self._backend = backend
        self._observers = observers

    def write(self, renewals: Iterable[Renewable]) -> None:
        """Ask for all of them, in as few requests as possible: one request has keys of one slot."""
        slot = self._backend.slot
        batches: dict[tuple[Batch, int], list[Asked]] = {}
        for renewal in renewals:
            try:
                batch, part = renewal.part()
                for one in _by_slot(renewal, part) if isinstance(part, JointPart) else ((renewal, part),):
                    batches.setdefault((batch, slot(one[1].keys[0])), []).append(one)
            except Exception:
                logger.exception("an error in a renewal; the others continue")
        for (batch, _), asked in batches.items():
            for chunk in _chunks(asked, batch.most_keys if isinstance(batch, Combiner) else CHUNK):
                self._request(batch, chunk)

    def _request(self, batch: Batch, asked: list[Asked]) -> None:
        call = batch([part for _, part in asked])

        def settle(result: list[Any] | BackendError) -> None:
            if not isinstance(result, BackendError):
                with self._observers:
                    for (renewal, _), outcome in zip(asked, result, strict=True):
                        renewal.judged(outcome, call.sent_at)
            elif result.transient or len(asked) == 1:
                for renewal, _ in asked:
                    renewal.unknown(result)
            else:
                # One denied key spoils a whole request: split until it is alone.
                middle = len(asked) // 2
                self._request(batch, asked[:middle])
                self._request(batch, asked[middle:])

        call.settle = settle
        try:
            self._backend.post(call)
        except Exception as error:
            logger.exception("renewals could not be written; trying again")
            settle(BackendError("", f"a renewal could not be written: {error!r}", transient=True))


def _chunks(asked: list[Asked], most_keys: int) -> Iterator[list[Asked]]:
    chunk: list[Asked] = []
    keys = 0
    for one in asked:
        size = len(one[1].keys)
        if chunk and (len(chunk) == CHUNK or keys + size > most_keys):
            yield chunk
            chunk, keys = [], 0
        chunk.append(one)
        keys += size
    if chunk:
        yield chunk


def _by_slot(renewal: Renewable, part: JointPart) -> list[Asked]:
    joint = JointRenewal(renewal, len(part.parts))
    return [(joint, one) for one in part.parts]
