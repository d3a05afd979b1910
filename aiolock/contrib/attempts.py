"""One attempt at a time to open a manager, whose failure those share who waited for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import BackendError


class Attempts:
    """Attempts to open one manager, for a caller that makes them under a lock.

    Attributes:
        failed: how many have failed.
    """

    def __init__(self) -> None:
        self.failed: int = 0
        self._failure: BackendError | None = None

    @contextmanager
    def one(self, failed: int) -> Iterator[None]:
        """Make an attempt, unless another has failed meanwhile: if each tried by itself, the last would wait for long.

        Args:
            failed: how many had failed before you waited for your turn.

        Raises:
            BackendError: this attempt failed, or that one.
        """
        if self._failure is not None and self.failed != failed:
            raise copy.copy(self._failure) from self._failure.__cause__
        try:
            yield
        except BackendError as error:
            self._failure = copy.copy(error)  # without the frames of its traceback
            self._failure.__cause__ = error.__cause__
            self.failed += 1
            raise
