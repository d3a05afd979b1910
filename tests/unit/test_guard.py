"""What a block tells of a loss: every case of the decision."""

from __future__ import annotations

from asyncio import CancelledError
from typing import cast

import pytest

from aiolock.core.guarding.guard import Report, report
from aiolock.core.holding.hold import Hold
from aiolock.errors import LockLost

OWN, OTHER = cast(Hold, object()), cast(Hold, object())
BODY, NOTE, LOSS = Report

CASES = [  # what the body raised, whose loss cancelled it, whether the block tells, others cancelled, dying: the report
    (None, None, True, False, False, LOSS),
    (None, None, False, False, False, BODY),
    (CancelledError, OWN, True, False, False, LOSS),
    (CancelledError, OWN, True, True, False, BODY),
    (CancelledError, OTHER, True, True, False, BODY),
    (CancelledError, OTHER, False, False, False, LOSS),
    (CancelledError, None, True, False, False, BODY),
    (CancelledError, None, False, True, False, BODY),
    (ValueError, None, True, False, False, NOTE),
    (ValueError, None, False, True, False, NOTE),
    (LockLost, None, True, False, False, BODY),
    (GeneratorExit, None, True, False, True, LOSS),
    (GeneratorExit, None, True, True, False, NOTE),
    (GeneratorExit, None, False, False, True, NOTE),
]


@pytest.mark.parametrize(("kind", "cause", "tells", "cancelled", "dying", "expected"), CASES)
def test_the_report(
    kind: type[BaseException] | None, cause: Hold | None, tells: bool, cancelled: bool, dying: bool, expected: Report
) -> None:
    """Kept by each line of `report`."""
    error = None if kind is None else kind.__new__(kind)
    assert report(error, cause, OWN, tells, cancelled, dying) is expected
