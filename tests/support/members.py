"""A server of a cluster, which tests start, stop and kill."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .running import kept


class Member:
    """One server of a cluster.

    Args:
        command: what starts it; it names the folder of the log.
        log: the file for what it says.
        port: where clients reach it.
    """

    def __init__(self, command: Sequence[str], log: Path, port: int) -> None:
        self.port = port
        self.log = log
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = kept(self.log.with_suffix(".pid"), self._command)
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(which)

    def kill(self) -> None:
        """End it at once; it can start again."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
