"""Decodes the raw replies of the condition's scripts."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

from ..base import Reply, as_list, as_number, as_text

WaiterState = Literal["waiting", "notified", "gone"]
"""What the server knows of a waiter."""


class Waiting(NamedTuple):
    """How a waiter is, and how many there are."""

    state: WaiterState
    waiters: int


def waiting(reply: Reply) -> Waiting:
    state, waiters = as_list(reply)
    return Waiting(cast(WaiterState, as_text(state)), as_number(waiters))


def count(reply: Reply) -> int:
    return as_number(reply)
