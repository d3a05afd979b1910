"""Decodes the raw replies of the latch's scripts."""

from __future__ import annotations

from typing import NamedTuple

from ..base import Reply, as_number


class LatchState(NamedTuple):
    """`left` counts are missing of the latch's `total`; 0: it is open."""

    left: int
    total: int


def deleted(reply: Reply) -> bool:
    return as_number(reply) > 0


def latch_state(reply: Reply) -> LatchState:
    match reply:
        case [int(left), int(total)]:
            return LatchState(left, total)
    raise ValueError(f"neither count nor total: {reply!r}")
