"""The requests that wait to be written, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...errors import BackendError
from ...scripts.base import Call
from .channels import Leave, Subscribe, Unsubscribe
from .credentials import Authenticate


class Asking(NamedTuple):
    """A request for a key that is on its way to this server: it runs only with ASKING in front of it."""

    request: Call[Any]


Item = Call[Any] | Subscribe | Unsubscribe | Leave | Authenticate | Asking

_SWEEP = 64


class Outbox:
    """First what is written again, then what is new. Outlives connections.

    Attributes:
        empty: False if a new request must wait here so that it does not overtake.
    """

    def __init__(self) -> None:
        self._again: list[Item] = []
        self._new: list[Item] = []
        self._instead: list[Item] | None = None
        self._sweep_at = _SWEEP
        self.empty: bool = True

    def put(self, item: Item) -> int:
        """Add a request after all others; or, while an unanswered request is asked about, in that one's place.

        Returns:
            How many are new.
        """
        self.empty = False
        if self._instead is not None:
            self._instead.append(item)
            return 0
        self._new.append(item)
        waiting = len(self._new)
        if waiting >= self._sweep_at:
            self._sweep()
        return waiting

    def take(self) -> list[Item]:
        """Take everything, to be written now."""
        items, self._new = self._new, []
        if self._again:
            items, self._again = self._again + items, []
        self._sweep_at = _SWEEP
        self.empty = self._instead is None
        return items

    def requests(self) -> Iterator[Call[Any]]:
        """All that wait, in order."""
        return (request for item in (*self._again, *self._new) if (request := _request(item)) is not None)

    def wanted(self) -> bool:
        """Whether it has a request that was not withdrawn."""
        return any(isinstance(item, Call) and not item.withdrawn for item in (*self._again, *self._new))

    def unanswered(self, request: Call[Any], otherwise: BackendError, unrun: bool = False) -> None:
        """Ask whether `request` is written again, before everything new; if not it fails with `otherwise`.

        What the callbacks add here meanwhile takes its place. `unrun`: the server says that it did not run.
        """
        instead: list[Item] = []
        outer, self._instead = self._instead, instead
        self.empty = False
        try:
            if request.again(unrun):
                instead.insert(0, request)
            else:
                request.end(otherwise)
        finally:
            self._instead = outer
        if outer is None:
            self._again.extend(instead)
        else:
            outer.extend(instead)
        self._note_empty()

    def put_back(self, item: Item) -> None:
        """Write `item`, which did not run, before everything new and after what was put back before."""
        self.empty = False
        (self._again if self._instead is None else self._instead).append(item)

    def take_back(self, wanted: Callable[[Call[Any]], bool]) -> list[Call[Any]]:
        """Take out the requests that `wanted` chooses, in order: another server is to run them."""
        taken: list[Call[Any]] = []
        self._again, self._new = (
            [item for item in items if not _take(item, wanted, taken)] for items in (self._again, self._new)
        )
        self._note_empty()
        return taken

    def disconnected(self) -> None:
        """Forget what only concerned the connection: on the next one all channels are subscribed to anyway."""
        self._again = [request for item in self._again if (request := _request(item)) is not None]
        self._new = [request for item in self._new if (request := _request(item)) is not None]
        self._note_empty()

    def _note_empty(self) -> None:
        self.empty = not (self._new or self._again) and self._instead is None

    def _sweep(self) -> None:
        # Otherwise the attempts that timed out during a long outage would pile up.
        gone = [item for item in self._new if isinstance(item, Call) and item.withdrawn]
        if gone:
            self._new = [item for item in self._new if not (isinstance(item, Call) and item.withdrawn)]
        self._sweep_at = max(_SWEEP, 2 * len(self._new))
        for request in gone:
            asyncio.get_running_loop().call_soon(request.unwritten)


def _request(item: Item) -> Call[Any] | None:
    if isinstance(item, Asking):
        return item.request
    return item if isinstance(item, Call) else None


def _take(item: Item, wanted: Callable[[Call[Any]], bool], taken: list[Call[Any]]) -> bool:
    request = _request(item)
    if request is None or not wanted(request):
        return False
    taken.append(request)
    return True
