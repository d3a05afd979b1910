"""A script about many names: batch.lua in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from ..base import TwinReply
from ..store import WrongType
from .state import Run, State

R = TypeVar("R")
T = TypeVar("T")


class Part(NamedTuple):
    """One request of those that a script answers: its keys begin with those of a name."""

    run: Run
    keys: Sequence[str]
    args: Sequence[str]

    def state(self, capacity: str = "0") -> State:
        """The name it is about; `capacity` is what the name can hold, if nothing is stored."""
        return self.run.open(self.keys, capacity)


Step = Callable[[Part], TwinReply]


def split(run: Run, keys: Sequence[str], args: Sequence[str], many_keys: int, many_args: int) -> list[Part]:
    """Return the parts, with this many keys and arguments each."""
    return [
        Part(run, keys[i * many_keys : (i + 1) * many_keys], args[i * many_args : (i + 1) * many_args])
        for i in range(len(keys) // many_keys)
    ]


def batch(parts: Sequence[Part], steps: Sequence[Step], alone: bool = False) -> list[TwinReply]:
    """Take each step for all parts; after the first, settle their names, and after the second, close them.

    Args:
        parts: the requests.
        steps: the first answer that is not None is a part's own.
        alone: an error is raised, not answered.
    """
    answers: list[TwinReply] = [None] * len(parts)
    failed: dict[str, str] = {}

    def attempt(key: str, step: Callable[[T], R], subject: T) -> R | None:
        if key in failed:
            return None
        try:
            return step(subject)
        except WrongType as error:
            if alone:
                raise
            failed[key] = f"error {error}"
            return None

    for step, then in zip(steps, (State.settle, State.close, None), strict=False):
        for i, part in enumerate(parts):
            if answers[i] is None:
                answers[i] = attempt(part.keys[0], step, part)
        if then is not None and parts:
            for state in parts[0].run.states.values():
                attempt(state.key, then, state)
    return [failed.get(part.keys[0], answer) for part, answer in zip(parts, answers, strict=True)]
