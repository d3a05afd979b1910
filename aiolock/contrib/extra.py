"""The error for a framework that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str, module: str | None = None) -> Iterator[None]:
    """Name the extra to install, if the imports in the block fail.

    Args:
        extra: its name.
        module: of this package, if it is called otherwise than the extra.

    Raises:
        ImportError: one of them did.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f'aiolock.contrib.{module or extra} needs {error.name}: pip install "aiolock-redis[{extra}]"',
            name=error.name,
        ) from error
