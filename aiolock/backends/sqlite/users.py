"""Who has a file open, and so knows its clock."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from .rights import Rights

if sys.platform != "win32":
    import fcntl


class Users:
    """The processes that have agreed on one boot's clock of a file, as a lock on a file next to it.

    Everybody takes it while the database may be written by nobody else, and keeps it for as long as locks are held: so
    if anybody has it, the machine has not been restarted since.

    Args:
        path: of the database.
        boot: the boot.
    """

    def __init__(self, path: Path, boot: str) -> None:
        self._of = path
        self._path = Path(f"{path}-boot-{boot[:8]}")
        self._fd: int | None = None

    def any(self) -> bool:
        """Whether there are any."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def join(self) -> None:
        """Be one. Nobody has it alone now: that takes the database."""
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            Rights(self._of).give_file(self._fd)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def last(self) -> bool:
        """Whether there is no other, while the database may be written by nobody else."""
        assert self._fd is not None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_SH)
        return True

    def leave(self) -> None:
        """Be none."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def forget(self) -> None:
        """The machine was restarted: there will be none again."""
        with contextlib.suppress(OSError):
            self._path.unlink()
