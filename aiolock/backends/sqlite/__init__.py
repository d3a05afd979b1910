"""Locks in a file, for the processes of one host."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from ...errors import ConfigurationError
from .engine import SQLiteEngine

__all__ = ["SQLiteEngine", "path_of"]


def path_of(url: str) -> Path:
    """The file that a URL names, as SQLAlchemy reads it: after three slashes; a fourth begins an absolute path.

    Raises:
        ConfigurationError: it names none.
    """
    _, _, rest = url.partition("://")
    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/") or not path or path.startswith(":memory:") or "?" in url:
        raise ConfigurationError(
            "",
            f"{url!r} names no file: write sqlite:///locks.db, or sqlite:////var/lib/app/locks.db for an absolute "
            "path; memory:// is a store without a file",
        )
    return Path(path)
