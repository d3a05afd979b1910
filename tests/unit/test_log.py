"""A log handler that fails cannot stop the code that logs."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable

import pytest

from aiolock.log import Log

WAYS: list[Callable[[Log], None]] = [
    lambda log: log.debug("%s", "said"),
    lambda log: log.info("%s", "said"),
    lambda log: log.warning("%s", "said"),
    lambda log: log.error("%s", "said", extra={"lock_name": "a"}),
    lambda log: log.exception("%s", "said"),
]


UNCONFIGURED = """
import asyncio
from aiolock import LockLost, LockManager

async def main():
    async with LockManager("memory://") as locks:
        for name in ("well", "lost"):
            try:
                async with locks.lock(name):
                    if name == "lost":
                        await locks.lock(name).force_release()
                        await asyncio.sleep(60)
            except LockLost:
                pass

asyncio.run(main())
"""


class Broken(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("the handler is broken")


def say_all() -> None:
    for way in WAYS:
        way(Log("aiolock.test"))


@pytest.mark.parametrize("told", [True, False])
def test_a_broken_handler(told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its error goes where the logging package's own errors go: to stderr, unless `logging.raiseExceptions` is off."""
    logger = logging.getLogger("aiolock.test")
    monkeypatch.setattr(logger, "handlers", [Broken()])
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    monkeypatch.setattr(logging, "raiseExceptions", told)
    say_all()
    assert capsys.readouterr().err.count("RuntimeError: the handler") == 5 * told


def test_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "aiolock.test"):
        say_all()
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO", "WARNING", "ERROR", "ERROR"]
    assert {(record.getMessage(), record.filename) for record in caplog.records} == {("said", "test_log.py")}
    assert vars(caplog.records[3])["lock_name"] == "a"


def test_a_program_that_configures_nothing_sees_what_is_wrong() -> None:
    """By Python's last resort: a WARNING once, and nothing of the normal course. Broken by a NullHandler."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", UNCONFIGURED], capture_output=True, text=True)
    assert done.stdout == ""
    assert done.stderr.splitlines() == ["lost lock 'lost': REVOKED: force_release() was called"]
