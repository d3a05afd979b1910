"""Runs a request about several slots: its parts, each where its keys are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..errors import BackendError
from ..scripts.base import Call
from ..scripts.joint import JointCall


def spread(call: Call[Any], post: Callable[[Call[Any]], None]) -> None:
    """Write all parts of `call` now.

    Args:
        call: has `parts`.
        post: writes one of them.
    """
    _Spread(cast(JointCall[Any], call)).write(post)


class _Spread:
    """A request whose parts are on their way."""

    __slots__ = ("_call", "_over", "_results")

    def __init__(self, call: JointCall[Any]) -> None:
        self._call = call
        self._results: list[Any] = [None] * len(call.parts)
        self._over = False

    def write(self, post: Callable[[Call[Any]], None]) -> None:
        for at, part in enumerate(self._call.parts):
            part.unanswered, part.unrun = self._call.unanswered, self._call.unrun
            part.away = self._call.away
            part.settle = self._settle(at)
            post(part)

    def _settle(self, at: int) -> Callable[[Any], None]:
        def settle(result: Any) -> None:
            self._results[at] = result
            if not self._over:
                self._join()

        return settle

    def _join(self) -> None:
        call = self._call
        joined: Any | BackendError | None = call.join(self._results)
        if joined is None:
            return
        self._over = True
        # The earliest: what all of them promise together they promise from then on.
        call.sent_at = min((part.sent_at for part in call.parts if part.writes), default=0.0)
        call.end(joined)
