"""A log handler that fails cannot stop the code that logs."""

from __future__ import annotations

import logging
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
