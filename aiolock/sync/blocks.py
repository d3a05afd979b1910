"""The blocks that were entered through one lock object: which of them ends when one is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import NamedTuple

from ..core.guarding.blocks import BETWEEN, instance
from .lease import Lease


class Block(NamedTuple):
    """An open block.

    Attributes:
        frame: id of the frame that entered it; unique while that frame lives.
        code: what runs in that frame.
        thread: the one that entered it.
        lease: what it holds.
        via: id of the object whose method entered it, if it may be unclear which block is left; otherwise 0.
    """

    frame: int
    code: CodeType
    thread: int
    lease: Lease
    via: int


class Blocks:
    """Open blocks, the last entered at the end.

    `with` leaves in the frame in which it entered, so that is certain, whatever thread runs it: a generator may be
    continued by another. If `__enter__` and `__exit__` are called in other ways, the object that calls them decides,
    such as an exit stack, and then the thread.
    """

    __slots__ = ("_mutex", "_open")

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._open: list[Block] = []

    def __bool__(self) -> bool:
        with self._mutex:
            self._forget_left()
            return bool(self._open)

    def enter(self, frame: FrameType, lease: Lease) -> None:
        """A block begins in this frame."""
        with self._mutex:
            self._forget_left()
            code, thread = frame.f_code, threading.get_ident()
            several = any(block.thread == thread for block in self._open)
            via = instance(frame) if several or code.co_name in BETWEEN else 0
            self._open.append(Block(id(frame), code, thread, lease, via))

    def find(self, frame: FrameType) -> Lease | None:
        """A block is left in this frame; return its lease, or None if it is unclear which it is, or none is open."""
        with self._mutex:
            self._forget_left()
            block = self._left_by(frame)
            return None if block is None else block.lease

    def _forget_left(self) -> None:
        self._open = [block for block in self._open if block.lease._host is not None]

    def _left_by(self, frame: FrameType) -> Block | None:
        for block in reversed(self._open):
            if block.frame == id(frame) and block.code is frame.f_code:
                return block
        running, via = set(_stack(frame)), instance(frame)  # the blocks of what runs go on
        others = [block for block in self._open if (block.frame, block.code) not in running]
        for block in reversed(others):
            if via and block.via == via:
                return block
        mine = [block for block in others if block.thread == threading.get_ident()]
        if mine:  # rather one that no object is known to have entered: another object's may still be in use
            return next((block for block in reversed(mine) if not block.via), mine[-1])
        return others[0] if len(others) == 1 else None


def _stack(frame: FrameType | None) -> Iterator[tuple[int, CodeType]]:
    while frame is not None:
        yield id(frame), frame.f_code  # ids of ended frames are reused
        frame = frame.f_back
