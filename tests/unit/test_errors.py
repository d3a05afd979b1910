"""Errors survive pickling and copying, keep their message, and form one tree."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

import aiolock
from aiolock import (
    AcquireTimeout,
    AiolockError,
    BackendError,
    CommitUnknown,
    ConfigurationError,
    Holder,
    LockLost,
    LossReason,
    NotAcquired,
    NotOwned,
    QuorumError,
    TransactionError,
    WaitTimeout,
)

ERRORS = [
    AiolockError("order:42", "said"),
    ConfigurationError("order:42", "said"),
    NotAcquired("order:42", "said"),
    AcquireTimeout("order:42", "said", Holder("order:42", "web-3:4711", "nightly")),
    WaitTimeout("order:42", "said"),
    LockLost("order:42", "said", LossReason.LOOP_BLOCKED),
    NotOwned("order:42", "said"),
    TransactionError("order:42", "said"),
    CommitUnknown("order:42", "said"),
    BackendError("order:42", "said", transient=True),
    QuorumError("order:42", "said", transient=True, outcomes=("node 1: granted", "node 2: no answer in time")),
]
each = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


def test_every_error_is_here() -> None:
    public = {thing for thing in vars(aiolock).values() if isinstance(thing, type) and issubclass(thing, AiolockError)}
    assert {type(error) for error in ERRORS} == public


@each
def test_str_is_the_message(error: AiolockError) -> None:
    assert str(error) == error.message == "said"
    assert error.name == "order:42"


@each
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(error: AiolockError, protocol: int) -> None:
    """`AiolockError.__reduce__`: OSError, a base of AcquireTimeout, would rebuild itself from (errno, strerror)."""
    twin = pickle.loads(pickle.dumps(error, protocol))
    assert type(twin) is type(error)
    assert vars(twin) == vars(error)
    assert (str(twin), twin.args) == (str(error), error.args)


@each
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copy(error: AiolockError, copied: object) -> None:
    assert callable(copied)
    twin = copied(error)
    assert twin is not error
    assert type(twin) is type(error)
    assert vars(twin) == vars(error)
    assert str(twin) == "said"


@each
def test_made_anew_of_its_arguments(error: AiolockError) -> None:
    """As task queues do that keep results as JSON."""
    twin = type(error)(*json.loads(json.dumps(error.args)))
    assert str(twin) == "said"
    if isinstance(error, LockLost):
        assert twin.reason is LossReason.LOOP_BLOCKED


def test_notes_travel() -> None:
    error = AcquireTimeout("a", "said")
    error.add_note("and more")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["and more"]


def test_the_tree() -> None:
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(AcquireTimeout, NotAcquired)
    assert issubclass(AcquireTimeout, TimeoutError)
    assert issubclass(WaitTimeout, TimeoutError)
    apart = (AcquireTimeout, WaitTimeout, LockLost, BackendError, NotOwned, ConfigurationError)
    for one in apart:
        assert [other for other in apart if issubclass(one, other)] == [one]


def test_timeout_reads_like_no_errno() -> None:
    error = AcquireTimeout("order:42", "lock 'order:42' was not acquired within 2 s")
    assert (error.errno, error.strerror) == (None, None) or "[Errno" not in str(error)
    assert "[Errno" not in repr(error)
