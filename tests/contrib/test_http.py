"""What clients are told of each error."""

from __future__ import annotations

import sys

import pytest

from aiolock import (
    AcquireTimeout,
    AiolockError,
    BackendError,
    ConfigurationError,
    Holder,
    LockLost,
    LossReason,
    NotAcquired,
    NotOwned,
)
from aiolock.contrib.extra import needs
from aiolock.contrib.http import ANSWERED, answer_to
from aiolock.recipes import Busy, Gone, Unavailable

SECRET = Holder("order:42", "web-3:4711", "nightly")
ERRORS = [
    (LockLost("order:42", "lost", LossReason.TAKEN_OVER), 503, False),
    (AcquireTimeout("order:42", "held by web-3:4711", SECRET), 409, True),
    (Busy("order:42", "held by web-3:4711", SECRET), 409, True),
    (Unavailable("order:42", "away", transient=True), 503, True),
    (NotAcquired("order:42", "closing"), 503, True),
    (Gone("order:42", "nobody waits"), 499, False),
    (NotAcquired("order:42", "would wait for itself", transient=False), None, False),
    (BackendError("order:42", "away", transient=True), 503, False),  # perhaps at the end of a block
    (Unavailable("order:42", "NOPERM"), None, False),
    (BackendError("order:42", "NOPERM"), None, False),
    (NotOwned("order:42", "a mistake"), None, False),
    (ConfigurationError("order:42", "a mistake"), None, False),
]


@pytest.mark.parametrize(("error", "status", "again"), ERRORS, ids=lambda value: getattr(value, "message", None))
def test_answers(error: AiolockError, status: int | None, again: bool) -> None:
    """A client is asked to come again only where nothing was done, and learns no name of ours."""
    answer = answer_to(error)
    assert (answer and answer.status) == status
    if answer is not None:
        assert isinstance(error, ANSWERED)
        assert answer.headers == ({"Retry-After": "1"} if again else {})
        assert "4711" not in answer.detail
        assert "order" not in answer.detail


def test_the_status_for_a_held_lock_is_yours() -> None:
    answer = answer_to(Busy("order:42", "held", SECRET), busy=423, retry_after=7)
    assert answer is not None
    assert (answer.status, answer.headers) == (423, {"Retry-After": "7"})


def test_a_framework_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra."""
    monkeypatch.setitem(sys.modules, "arq", None)
    monkeypatch.delitem(sys.modules, "aiolock.contrib.arq", raising=False)
    with pytest.raises(ImportError, match=r'arq: pip install "aiolock-redis\[arq\]"') as caught, needs("arq"):
        import arq  # noqa: F401
    assert caught.value.name == "arq"
