"""Makes one answer of those of several slots: see `JointCall.join`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ...errors import BackendError, LossReason
from ..joint import Result
from ..outcomes import Failed, Kept, Missing, Released, ReleaseOutcome, Renewed, RenewOutcome

T = TypeVar("T")


def released(results: Sequence[Result]) -> ReleaseOutcome | BackendError | None:
    """All must be known: each slot ends the owner for itself."""
    if None in results:
        return None
    failed = _failed(results)
    if failed is not None:
        return failed
    kept = [result.pttl for result in results if isinstance(result, Kept)]
    if _missing(results) is None and not kept:
        return Released(max(result.fence for result in results))
    return _missing(results) or Kept(min(kept))


def nested(results: Sequence[Result]) -> Kept | Missing | BackendError | None:
    """One that is missing is enough to know that it is lost."""
    gone = _missing(results) or _failed(results)
    return gone or (None if None in results else Kept(min(result.pttl for result in results)))


def renewed(results: Sequence[Result]) -> list[RenewOutcome] | BackendError | None:
    """One that is missing is enough to know that it is lost; each slot answers for one hold."""
    outcomes: list[Result] = [result[0] if isinstance(result, list) else result for result in results]
    gone = _missing(outcomes)
    if gone is not None:
        return [gone]
    failed = _failed(outcomes)
    if failed is not None or None in outcomes:
        return failed
    refused = next((outcome for outcome in outcomes if isinstance(outcome, Failed)), None)
    return [refused or Renewed(min(outcome.pttl for outcome in outcomes))]


def done(results: Sequence[Result]) -> bool | None:
    """Nobody asks how it went."""
    return None if None in results else True


def _missing(results: Sequence[Result]) -> Missing | None:
    """A name that was taken matters more than one that is free."""
    found = [result for result in results if isinstance(result, Missing)]
    return max(found, key=lambda missing: missing.reason is LossReason.TAKEN_OVER, default=None)


def _failed(results: Sequence[Result]) -> BackendError | None:
    """An error after which it makes sense to try again, if there is one."""
    errors = [result for result in results if isinstance(result, BackendError)]
    return max(errors, key=lambda error: error.transient, default=None)
