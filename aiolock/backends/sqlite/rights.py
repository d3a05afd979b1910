"""Who may use what belongs to a file: whoever may use that, as with what SQLite itself keeps next to it."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path


class Rights:
    """Those of a file; umask takes nothing from them, and root gives them to the file's owner.

    Args:
        file: to stand for.

    Raises:
        OSError: it is not there.
    """

    def __init__(self, file: Path) -> None:
        found = os.stat(file)
        self._mode = found.st_mode & 0o777
        self._user = found.st_uid if os.geteuid() == 0 else -1
        self._group = found.st_gid

    def folder(self, path: Path) -> int:
        """Open a folder; make it if it is missing. Its rights grow with the file's, and never shrink.

        Raises:
            OSError: that cannot be done.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        found = os.fstat(fd)
        mode = stat.S_IMODE(found.st_mode) | self._mode | (self._mode & 0o444) >> 2  # who may read may enter
        if found.st_uid == os.geteuid():
            with contextlib.suppress(OSError):
                os.fchown(fd, self._user, self._group)
            with contextlib.suppress(OSError):
                os.fchmod(fd, mode)
        return fd

    def give_file(self, fd: int) -> None:
        """Give them to a file that was just made."""
        with contextlib.suppress(OSError):
            os.fchown(fd, self._user, self._group)
        with contextlib.suppress(OSError):
            os.fchmod(fd, self._mode)

    def give(self, folder: int, path: Path) -> None:
        """Give them to a socket of one's own. Whoever may write there may have put something else in its place."""
        if sys.platform != "linux":
            with contextlib.suppress(OSError):
                os.chown(path, self._user, self._group, follow_symlinks=False)
            with contextlib.suppress(OSError):
                os.chmod(path, self._mode & 0o666, follow_symlinks=False)
            return
        fd = os.open(path.name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                with contextlib.suppress(OSError):
                    os.chown(f"/proc/self/fd/{fd}", self._user, self._group)
                with contextlib.suppress(OSError):
                    os.chmod(f"/proc/self/fd/{fd}", self._mode & 0o666)
        finally:
            os.close(fd)
