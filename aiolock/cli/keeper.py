"""Kills the command of `run` if `run` itself is killed, because no one would stop it when the lock expires."""

from __future__ import annotations

import contextlib
import subprocess

# Its standard input ends with our process, however that ends. This needs no Linux, and reaches the whole group.
_KEEPER = 'trap "" HUP INT QUIT TERM; read -r group && ! read -r _ && kill -KILL "-$group"'


class Keeper:
    """A shell that waits for the end of this process; start it before the command. Without a shell it does nothing."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
            )  # fmt: skip

    def keep(self, group: int) -> None:
        """Kill this process group from now on, if this process ends without `end()`."""
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # someone killed it
                self._shell.stdin.write(f"{group}\n".encode())
                self._shell.stdin.flush()

    def end(self) -> None:
        """There is nothing to kill any more."""
        if self._shell is not None:
            self._shell.kill()  # before its input ends
            self._shell.wait()
            if self._shell.stdin is not None:
                with contextlib.suppress(OSError):
                    self._shell.stdin.close()
