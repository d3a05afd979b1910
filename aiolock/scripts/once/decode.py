"""Decodes the raw replies of the scripts of `once()`."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import BackendError
from ..base import Reply, as_list, as_number, as_text


class KeptRun(NamedTuple):
    """The last run of a window: how it is, how old, for how long it is kept (both in ms), and whose it is.

    `mine`: the request began it. A `status` of "held": no run is kept, and this one has the lock.
    """

    mine: bool
    fence: int
    status: str
    age: int
    left: int
    by: str


def kept_run(reply: Reply) -> KeptRun | None:
    match as_list(reply):
        case [_]:
            return None
        case [int(mine), fence, status, int(age), int(left), by]:
            return KeptRun(mine == 1, as_number(fence), as_text(status), age, left, as_text(by))
    raise ValueError(f"neither a run nor none: {reply!r}")


def flag(reply: Reply) -> bool:
    return as_number(reply) > 0


def not_kept(result: object, error: BackendError) -> BackendError:
    """What an answer is worth that too few replicas have: a failover could forget the run."""
    return error
