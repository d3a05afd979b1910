"""Calls that join one that runs: they wait for it, and get what it returned."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..clock import Clock, pause
from ..core.runtime import Runtime
from ..errors import AiolockError, BackendError
from ..scripts.outcome import OutcomeCalls, Seen
from .not_run import Busy, before_it_runs

KEEP_MS = 60_000
"""How long an outcome is kept: longer than any joiner sleeps, also on a machine that is frozen for a while."""
LARGEST = 256 * 1024
"""Characters of JSON that an outcome may have."""
FIRST, LONGEST = 0.01, 0.5
"""Seconds until a joiner looks for the second time, and at most between two looks."""


class JoinFailed(AiolockError):
    """The call that this one joined has run in another process, or thread, and there is no result of it.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
        error: the class of the error that it raised, as "ValueError"; None if its result cannot be passed on: it is no
            JSON, or too large.
    """

    def __init__(self, name: str, message: str, error: str | None = None) -> None:
        super().__init__(name, message)
        self.error: str | None = error


class Joining:
    """The outcomes of calls under one lock.

    Args:
        runtime: the manager's.
        name: the lock's.

    Attributes:
        clock: the manager's.
        asked_at: clock time of the last request for the lock.
        fence: of the call that ran here, under this lock; 0 before.
        looks: how often it has asked whose call runs.
        seen_at: the last of them that has seen the call run.
        ended_at: clock time at which that had ended, at the latest.
    """

    def __init__(self, runtime: Runtime, name: str) -> None:
        runtime.backend.abilities.need_scripts(name, "calls that others join")
        self.clock: Clock = runtime.clock
        self.asked_at: float = 0.0
        self.fence: int = 0
        self.ended_at: float = math.inf
        self.looks: int = 0
        self.seen_at: float = 0
        self._runtime = runtime
        self._calls = OutcomeCalls(runtime.keys, name)

    def tell(self, fence: int, ended_at: float, result: object = None, error: BaseException | None = None) -> None:
        """Let others know how a call ended, and when, before its lock is released. Nobody waits for that: if it never
        arrives, they start again.
        """
        text = _error(error) if error is not None else _result(result)
        self._runtime.backend.post(self._calls.keep(fence, text, KEEP_MS, ended_at - self.asked_at))

    async def follow(self, began: float, until: float | None, over: int = 0) -> Callable[[], Any] | None:
        """Wait for the end of the call that runs, or while nobody can run one.

        Args:
            began: clock time at which this call began: what ended before is not its.
            until: clock time at which the wait is over; None for no limit.
            over: the fence of a call that has ended, whatever the server says.

        Returns:
            What returns its result, or raises its error. None if there is nothing to join: none runs, or it ended
            without an outcome, as its process died.

        Raises:
            Busy: it still runs.
            Unavailable: Redis is unreachable or refuses; if it was reached before, an outage does not end the wait.
        """
        clock, interval = self.clock, FIRST
        with before_it_runs():
            seen = first = await self._ask(0)
        joins = first.runs and first.fence != over
        while seen.fence == first.fence and first.fence:
            if joins and seen.runs:
                self.seen_at = self.looks
            left = interval if until is None else until - clock.now()
            if left <= 0:
                text = f"another call under lock {self._calls.name!r} still runs: call it again later"
                raise Busy(self._calls.name, text)
            await pause(clock, min(interval, left))
            interval = min(1.5 * interval, LONGEST)
            try:
                seen = await self._ask(first.fence)
            except BackendError as error:
                if not error.transient:
                    with before_it_runs():
                        raise
                continue
            if joins and seen.text is not None:
                # Its process may have been cut off since, and the lock seemed to be in use.
                self.ended_at = clock.now() - seen.ago
                if began <= self.ended_at:
                    return self._told(seen.text)
        return None

    async def _ask(self, fence: int) -> Seen:
        self.looks += 1
        return await self._runtime.ask(self._calls.ask(fence), "joining a call under")

    def _told(self, text: str) -> Callable[[], Any]:
        name, kept = self._calls.name, json.loads(text)

        def tell() -> Any:
            if "result" in kept:
                return kept["result"]
            if "error" in kept:
                error, said = kept["error"]
                what = f"the call under lock {name!r} that this one joined failed: {error}: {said}"
                raise JoinFailed(name, what, error)
            what = f"the result of the call under lock {name!r} that this one joined cannot be passed on"
            raise JoinFailed(name, f"{what}: {kept['unfit']}; return what JSON has")

        return tell


def _result(result: object) -> str:
    try:
        text = json.dumps({"result": result}, separators=(",", ":"))
        why = "" if len(text) <= LARGEST else f"it has {len(text)} characters of JSON, and {LARGEST} are allowed"
    except Exception as error:  # a result has code of its own, and its call has not failed
        why = _text(error)
    return json.dumps({"unfit": why[:500]}) if why else text


def _error(error: BaseException) -> str:
    return json.dumps({"error": [type(error).__name__, _text(error)[:1000]]})


def _text(error: BaseException) -> str:
    with suppress(Exception):  # it would hide what happened
        if text := str(error):
            return text
    return f"{type(error).__name__} without a text"
