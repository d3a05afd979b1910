"""Management commands under a lock, and the manager of synchronous code."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import django
import pytest
from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command
from django.test.utils import override_settings

from aiolock import ConfigurationError
from aiolock.contrib.django.commands import BUSY, LOST, UNREACHABLE, LockedCommand
from aiolock.contrib.django.sync import get_locks
from aiolock.sync import LockManager
from tests.support import redis_cli
from tests.support.locks import nothing_held

if not settings.configured:
    settings.configure(LOGGING_CONFIG=None)
    django.setup()

NAME = "command:test_django_commands"


class Command(LockedCommand, BaseCommand):
    requires_system_checks: ClassVar[list[str]] = []
    lock_options = {"ttl": 20.0}  # noqa: RUF012 - as a user writes it

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--lose", action="store_true")

    def handle(self, *args: Any, **options: Any) -> str:
        if options["lose"]:
            assert get_locks().lock(NAME).force_release()
            self.lease.wait_lost()
            self.lease.ensure()
        self.lease.renew()  # after a wait it has less at first
        assert 10 < self.lease.remaining() <= 20
        return str(self.lease.fence)


@pytest.fixture
def other(redis_url: str) -> Iterator[LockManager]:
    """Another process's manager; the command's is of the settings."""
    with override_settings(AIOLOCK={"source": redis_url}), LockManager(redis_url) as manager:
        yield manager
        get_locks().close()
    with redis_cli.client(redis_url) as client:
        assert nothing_held(client)


def run(*args: str) -> tuple[str, str]:
    """What the command printed."""
    out, errors = io.StringIO(), io.StringIO()
    call_command(Command(stdout=out, stderr=errors), *args)
    return out.getvalue().strip(), errors.getvalue()


def test_one_runs_at_a_time(other: LockManager) -> None:
    """Kept by LockedCommand.execute."""
    lock = other.lock(NAME)
    first = int(run()[0])
    with lock as lease:
        with pytest.raises(CommandError, match="not run") as held:
            run()
        assert held.value.returncode == BUSY
        out, errors = run("--skip-if-held")
        assert (out, "skipped" in errors) == ("", True)
        told = io.StringIO()
        call_command(Command(), skip_if_held=True, stderr=told)
        assert "skipped" in told.getvalue()
        with pytest.raises(CommandError):
            run("--wait", "0.01")
    assert int(run("--wait", "5")[0]) > lease.fence > first
    with lock:
        pass


def test_its_turn_comes(other: LockManager) -> None:
    """A command that waits runs when the other one has ended."""
    lease = other.lock(NAME).acquire()
    threading.Timer(0.05, lease.release).start()
    assert int(run("--wait", "10")[0]) > lease.fence


def test_a_lost_lock(other: LockManager) -> None:
    """The command ends at its next look, and says so."""
    with pytest.raises(CommandError, match="REVOKED") as lost:
        run("--lose")
    assert lost.value.returncode == LOST


def test_the_exit_code(other: LockManager, capsys: pytest.CaptureFixture[str]) -> None:
    """As the shell sees it."""
    command = Command()
    command.run_from_argv(["manage.py", "ship"])
    assert int(capsys.readouterr().out) > 0
    with other.lock(NAME), pytest.raises(SystemExit) as ended:
        command.run_from_argv(["manage.py", "ship"])
    assert ended.value.code == BUSY
    with pytest.raises(SystemExit):
        command.run_from_argv(["manage.py", "ship", "--wait", "-1"])
    assert "0 seconds to 30 days" in capsys.readouterr().err


def test_the_manager_of_the_settings(other: LockManager, redis_url: str) -> None:
    """One for a process, while the settings last. Kept by `get_locks()`."""
    mine = get_locks()
    assert get_locks() is mine
    with override_settings(AIOLOCK={"source": redis_url, "ttl": 5.0}):
        fresh = get_locks()
        assert fresh is not mine
        assert not mine._portal.here
        with fresh.lock("a") as lease:
            assert lease.remaining() <= 5
    with override_settings(AIOLOCK=None), pytest.raises(ConfigurationError, match=r"settings\.AIOLOCK"):
        get_locks()
    with override_settings(AIOLOCK={"source": "redis://127.0.0.1:1", "request_timeout": 0.1}):
        assert not get_locks().connected
        with pytest.raises(CommandError, match="not run") as away:
            run()
        assert away.value.returncode == UNREACHABLE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_has_its_own(other: LockManager) -> None:
    """As with gunicorn's --preload. Kept by `get_locks()`."""
    with get_locks().lock("a"):
        child = os.fork()
        if not child:
            with get_locks().lock("b") as lease:
                alone = get_locks().lock("a").try_acquire() is None
            os._exit(0 if alone and lease.released else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
