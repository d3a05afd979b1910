"""A lock that is released before the transaction is committed lets others in that do not see what it wrote."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.db import connections, transaction
from django.db.utils import ConnectionHandler
from django.test.utils import override_settings

from aiolock import BackendError, LockLost
from aiolock.contrib.django import transactions
from aiolock.contrib.django.sync import get_locks, until_commit
from aiolock.sync import Lease, LockManager
from tests.contrib.conftest import NAME

if not settings.configured:
    settings.configure(LOGGING_CONFIG=None)
    django.setup()


@pytest.fixture(autouse=True)
def places(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database and a server; nobody has been warned of anything."""
    monkeypatch.setattr(transactions, "_told", set())
    engine = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "shop.db")}
    connection = ConnectionHandler({"default": engine})["default"]
    connections["default"] = connection
    with override_settings(AIOLOCK={"source": redis_url}):
        yield
        get_locks().close()
    connection.close()
    del connections["default"]


@pytest.fixture
def other(redis_url: str) -> Iterator[LockManager]:
    """Another process."""
    with LockManager(redis_url) as manager:
        yield manager
        assert not manager.lock(NAME).is_locked()


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was said so far."""
    return lambda: [one.getMessage() for one in caplog.records if one.name == "aiolock.django"]


class Undone(Exception):
    pass


def released_too_soon() -> None:
    with get_locks().lock(NAME):
        pass


# The warning.


def test_a_block_that_ends_in_a_transaction(warnings: Callable[[], list[str]]) -> None:
    """Once for each place in the code, as views are called often. Kept by `warn`."""
    with transaction.atomic():
        released_too_soon()
        (said,) = warnings()
        assert NAME in said
        assert f"{Path(__file__).name}:{released_too_soon.__code__.co_firstlineno + 1}" in said
        assert "'default'" in said
        assert "until_commit" in said
        released_too_soon()
        assert len(warnings()) == 1
        with get_locks().rw_lock(NAME).write:
            pass
        assert len(warnings()) == 2
        lease = get_locks().lock(NAME).acquire()
        with lease:
            pass
    assert len(warnings()) == 3


@contextmanager
def of_a_test_case() -> Iterator[None]:
    """As TestCase runs each test."""
    block = transaction.atomic()
    block._from_testcase = True
    with block:
        yield


def outside() -> None:
    with get_locks().lock(NAME), transaction.atomic():
        pass


def nested() -> None:
    with get_locks().lock(NAME), transaction.atomic(), get_locks().lock(NAME):
        pass


def failed() -> None:
    with pytest.raises(Undone), transaction.atomic(), get_locks().lock(NAME):
        raise Undone


def tested() -> None:
    with of_a_test_case(), get_locks().lock(NAME):
        pass


def limited() -> None:
    """It protects no data."""
    with transaction.atomic(), get_locks().semaphore(NAME, 2):
        pass


def kept() -> None:
    with transaction.atomic(), until_commit(get_locks().lock(NAME)):
        pass


@pytest.mark.parametrize("use", [outside, nested, failed, tested, limited, kept])
def test_others_are_not_warned_of(use: Callable[[], None], warnings: Callable[[], list[str]]) -> None:
    use()
    assert warnings() == []


def test_what_it_cannot_find_out_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, other: LockManager, warnings: Callable[[], list[str]]
) -> None:
    def raises(**_: Any) -> Any:
        raise RuntimeError("a surprise")

    monkeypatch.setattr(connections, "all", raises)
    released_too_soon()
    assert not other.lock(NAME).is_locked()
    assert warnings() == []


def test_other_managers_look_at_no_transaction(other: LockManager, warnings: Callable[[], list[str]]) -> None:
    with transaction.atomic(), other.lock(NAME):
        pass
    assert warnings() == []


# Released on commit.


def test_it_is_released_after_the_commit(other: LockManager) -> None:
    held = []
    with transaction.atomic():
        transaction.on_commit(lambda: held.append(other.lock(NAME).is_locked()))  # it is committed already
        with transaction.atomic(), until_commit(get_locks().lock(NAME)) as lease:
            assert lease.fence
        held.append(other.lock(NAME).is_locked())
    assert held == [True, True]
    assert not other.lock(NAME).is_locked()


@pytest.mark.parametrize("inner", [True, False])
def test_it_is_released_after_a_rollback(other: LockManager, inner: bool) -> None:
    """Of the transaction, or of the savepoint in which it was taken. Kept by `_Kept.__del__`: Django calls nothing."""

    def sell() -> None:
        with until_commit(get_locks().lock(NAME)):
            if inner:
                raise Undone
        assert other.lock(NAME).is_locked()
        raise Undone

    with transaction.atomic():
        with pytest.raises(Undone), transaction.atomic():
            sell()
        assert other.lock(NAME).acquire(timeout=5.0).release() is None


def test_an_error_that_the_transaction_survives(other: LockManager) -> None:
    """What was written before it is committed."""
    with transaction.atomic():
        with pytest.raises(Undone), until_commit(get_locks().lock(NAME)):
            raise Undone
        assert other.lock(NAME).is_locked()


@pytest.mark.parametrize("test_case", [True, False])
def test_without_a_transaction_it_is_released_at_once(other: LockManager, test_case: bool) -> None:
    with of_a_test_case() if test_case else pytest.MonkeyPatch.context():
        with until_commit(get_locks().lock(NAME)):
            assert other.lock(NAME).is_locked()
        assert not other.lock(NAME).is_locked()


def test_a_lock_that_is_lost_in_its_block(other: LockManager) -> None:
    """The transaction is rolled back. Kept by lease.ensure() in `until_commit`."""
    committed: list[int] = []

    def sell() -> None:
        transaction.on_commit(lambda: committed.append(1))
        with until_commit(get_locks().lock(NAME)) as lease:
            other.lock(NAME).force_release()
            lease.wait_lost()

    with pytest.raises(LockLost), transaction.atomic():
        sell()
    assert committed == []


def test_a_lock_that_is_lost_after_its_block(other: LockManager, caplog: pytest.LogCaptureFixture) -> None:
    """It is too late: the log says so, and other callbacks are called."""
    committed: list[int] = []
    with transaction.atomic():
        with until_commit(get_locks().lock(NAME)) as lease:
            pass
        transaction.on_commit(lambda: committed.append(1))
        other.lock(NAME).force_release()
        lease.wait_lost()
    assert committed == [1]
    assert [one.levelno for one in caplog.records if one.name == "aiolock.hold"] == [logging.WARNING]


def test_a_release_that_is_refused(monkeypatch: pytest.MonkeyPatch, other: LockManager) -> None:
    """Other callbacks are called, and the view does not fail: it is committed. Kept by `robust`."""
    committed: list[int] = []
    with transaction.atomic():
        with until_commit(get_locks().lock(NAME)) as lease:
            pass
        transaction.on_commit(lambda: committed.append(1))

        def refuses(_: Lease) -> None:
            raise BackendError(NAME, "NOPERM")

        monkeypatch.setattr(Lease, "release", refuses)
    assert committed == [1]
    monkeypatch.undo()
    lease.release()


def test_a_block_inside_it_waits_for_nobody(other: LockManager) -> None:
    """The thread holds it until the commit."""
    with transaction.atomic():
        with until_commit(get_locks().lock(NAME)):
            pass
        with get_locks().lock(NAME, acquire_timeout=0):
            pass
        assert other.lock(NAME).is_locked()
