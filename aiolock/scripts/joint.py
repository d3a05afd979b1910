"""Several requests that are one for whoever made them: each has the keys of one slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

from ..errors import BackendError
from .base import Call, Part

R = TypeVar("R")

Result = Any
"""What one of them answered, or its `BackendError`; None while it is not answered."""


class JointPart(Part):
    """A line that is about several slots: a part for each.

    Args:
        parts: their lines.
    """

    parts: tuple[Part, ...]

    def __new__(cls, parts: Iterable[Part]) -> Self:
        joint = super().__new__(cls, (), ())
        joint.parts = tuple(parts)
        return joint


class JointCall(Call[R]):
    """A request about keys in several slots. A backend runs its parts, each where its keys are.

    Args:
        name: the lock the request is about, for errors.
        parts: one request for each slot; they are written at once, in this order.
        join: makes one result of theirs; called with each of them, in their order, whenever one is answered. None: it
            needs more of them.
    """

    __slots__ = ("join", "parts")

    def __init__(
        self, name: str, parts: Sequence[Call[Any]], join: Callable[[Sequence[Result]], R | BackendError | None]
    ) -> None:
        super().__init__(name, parts[0].script, (), ())
        self.parts: Sequence[Call[Any]] = parts
        self.join: Callable[[Sequence[Result]], R | BackendError | None] = join

    def withdraw(self) -> bool:
        """Take back what no server has seen; return False if one may have seen its part."""
        seen = [part for part in self.parts if not part.withdraw()]
        return not seen

    def become(self, other: Call[R]) -> None:
        """See `Call.become`."""
        for mine, its in zip(self.parts, other.parts, strict=True):
            mine.become(its)
