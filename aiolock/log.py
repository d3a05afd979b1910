"""Logging that never raises: your handlers and filters may."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping

CALLER = 3
"""Frames between here and the code that logs, whose place a record names."""


class Log:
    """A logger whose calls never raise.

    Args:
        name: the logger's name.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

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
