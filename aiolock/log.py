"""Logging that never raises: your handlers and filters may."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple

CALLER = 3
"""Frames between here and the code that logs, whose place a record names."""


class Log:
    """A logger whose calls never raise.

    Args:
        name: the logger's name.

    Attributes:
        shows: whether anything comes of a record of a level; ask again each time, as levels change.
    """

    __slots__ = ("_logger", "shows")

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self.shows: Callable[[int], bool] = self._logger.isEnabledFor

    @property
    def name(self) -> str:
        """The logger's name."""
        return self._logger.name

    def mapped(self, level: int, message: str, values: Mapping[str, object]) -> None:
        """Log a message that names its values, which are its `extra`, too."""
        self._say(level, message, (values,), values)

    def debug(self, message: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        self._say(logging.DEBUG, message, args, extra)

    def info(self, message: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        self._say(logging.INFO, message, args, extra)

    def warning(self, message: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        self._say(logging.WARNING, message, args, extra)

    def error(
        self,
        message: str,
        *args: object,
        extra: Mapping[str, object] | None = None,
        exception: BaseException | None = None,
    ) -> None:
        """Log an ERROR, with the traceback of `exception`."""
        self._say(logging.ERROR, message, args, extra, exception)

    def exception(self, message: str, *args: object) -> None:
        """Log an ERROR with the exception that is being handled."""
        self._say(logging.ERROR, message, args, None, exception=True)

    def _say(
        self,
        level: int,
        message: str,
        args: tuple[object, ...],
        extra: Mapping[str, object] | None,
        exception: bool | BaseException | None = False,
    ) -> None:
        try:
            self._logger.log(level, message, *args, exc_info=exception, extra=extra, stacklevel=CALLER)
        except Exception:
            # As the logging package does with errors of its own handlers.
            if logging.raiseExceptions and sys.stderr is not None:
                traceback.print_exc()


class Line(NamedTuple):
    """How something looks in the log.

    Attributes:
        log: the logger.
        level: of the record.
        message: names its values, which are those of the record's `extra`.
        more: the same of several locks together, for what an outage does to all; empty if there is no such.
    """

    log: Log
    level: int
    message: str
    more: str = ""
