"""A PostgreSQL server and its standby, which has what was committed before anybody is told that it was."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg

from . import running
from .postgres import OwnServer, Running


class Standby(Running):
    """Follows another server.

    Args:
        folder: an empty one.
        primary: the address of that server.
    """

    def __init__(self, folder: Path, primary: str) -> None:
        self._primary = primary
        super().__init__(folder)

    def fill(self) -> None:
        copy = ("--dbname", self._primary, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        self.run(str(self.binaries / "pg_basebackup"), *copy, f"--pgdata={self.data}")


class Replicated:
    """Two servers; the first one is the primary.

    Args:
        synchronous: commits wait for the standby.

    Attributes:
        url: of both: whoever connects asks which is the primary.
    """

    def __init__(self, synchronous: bool = True) -> None:
        self._primary = OwnServer()
        try:
            self._standby = running.OwnServer(lambda folder: Standby(folder, self._primary.url))
        except BaseException:
            self._primary.close()
            raise
        self._folder = self._standby.running.folder
        self.url = f"{self._primary.url},{self._folder}"
        try:
            self._follow(synchronous)
        except BaseException:
            self.close()
            raise

    def _follow(self, synchronous: bool) -> None:
        with psycopg.connect(self._primary.url, autocommit=True) as link:
            if synchronous:
                link.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                link.execute("SELECT pg_reload_conf()")
            until = time.monotonic() + 20
            wanted = [("sync",)] if synchronous else [("async",)]
            while link.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != wanted:
                assert time.monotonic() < until, "the standby does not follow"
                time.sleep(0.02)

    def crash(self) -> None:
        """The primary ends, and nothing is told to anybody."""
        self._primary.running.stop()

    def promote(self) -> None:
        """The standby takes its place."""
        with psycopg.connect(
            f"postgresql://postgres@/postgres?host={self._standby.running.folder}", autocommit=True
        ) as link:
            assert link.execute("SELECT pg_promote(true, 20)").fetchone() == (True,)

    def close(self) -> None:
        """End both; their files go."""
        self._standby.close()
        self._primary.close()
