"""Decodes the raw replies of the condition's scripts."""

from __future__ import annotations

from typing import Literal, cast

from ..base import Reply, as_number, as_text

WaiterState = Literal["waiting", "notified", "gone"]
"""What the server knows of a waiter."""


def state(reply: Reply) -> WaiterState:
    return cast(WaiterState, as_text(reply))


def count(reply: Reply) -> int:
    return as_number(reply)
