"""A real MariaDB or MySQL server: one for all workers of a run, and a database for each."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pytest
from pymysql import Error as Error

from aiolock.testing.server import _free_port

from . import running
from .debian import locked, unpack

BINARIES = ("mariadbd", "mysqld")
PACKAGES = ("mariadb-server-core", "mariadb-server-core-10.6", "mariadb-server-core-10.11")
"""Debian's, and what some Ubuntus call it."""
SETTINGS = (
    *("--bind-address=127.0.0.1", "--max-connections=500", "--skip-name-resolve", "--performance-schema=OFF"),
    *("--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M", "--sync-binlog=0"),
)
"""What is written survives all that tests do to it: processes end, the machine does not."""


UNREACHABLE = 2003
"""What a client calls it if nobody listens."""


class Binary(NamedTuple):
    """A program that is a server.

    Attributes:
        path: the program.
        libraries: where it finds what the machine has not.
        share: where its files are; None if it knows.
    """

    path: Path
    libraries: Path | None
    share: Path | None

    @property
    def options(self) -> list[str]:
        """What each of its command lines begins with."""
        files = (
            []
            if self.share is None
            else [f"--lc-messages-dir={self.share}", f"--character-sets-dir={self.share}/charsets"]
        )
        user = [] if os.getuid() else ["--user=root"]
        return [str(self.path), "--no-defaults", *user, *files]

    @property
    def environment(self) -> dict[str, str]:
        """Its variables."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.libraries)} if self.libraries else dict(os.environ)

    @property
    def mariadb(self) -> bool:
        """Whether it is one, and not MySQL."""
        return b"MariaDB" in subprocess.run([*self.options, "--version"], env=self.environment, stdout=-1).stdout


def binary() -> Binary:
    """A server that is installed; or else Debian's package, unpacked beside our Python without any rights. Skips the
    test if there is none.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/libexec"])
    for name in BINARIES:
        if found := shutil.which(name, path=path):
            return Binary(Path(found), None, None)
    root = Path(sys.prefix, "mariadb")
    with locked(Path(f"{root}.lock")):
        if not root.exists():
            unpack(root, PACKAGES)
    found = next(root.glob("usr/sbin/mariadbd"), None)
    if found is None:
        pytest.skip(f"no mariadbd or mysqld on PATH, nor in apt: install one, or delete {root} to look again")
    return Binary(found, next(root.glob("usr/lib/*-linux-gnu*")), root / "usr/share/mysql")


class Running(running.Running):
    """A MariaDB or MySQL.

    Attributes:
        port, socket: where it is.
    """

    def make(self) -> None:
        self._binary = binary()
        self._data = self.folder / "data"
        self._temporary = (
            self.folder / "tmp"
        )  # a server that starts deletes what others have in a folder that they share
        self._temporary.mkdir()
        self.socket = str(self.folder / "s")
        self.port = _free_port()
        share = self._binary.share or next(
            (path for path in (self._binary.path.parent.parent / "share").glob("m*") if (path / "charsets").exists()),
            None,
        )
        if not self._binary.mariadb:
            self.run(*self._binary.options, "--initialize-insecure", f"--datadir={self._data}")
            return
        assert share is not None
        (self._data / "mysql").mkdir(parents=True)
        names = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
        found = [next(share.glob(name.replace("mysql_", "m*_", 1))) for name in names]
        lines = ["use mysql;\n", "SET @auth_root_socket=NULL;\n", *(path.read_text() for path in found)]
        where = (f"--datadir={self._data}", f"--tmpdir={self._temporary}")
        self.run(*self._binary.options, "--bootstrap", *where, given="".join(lines))

    def command(self) -> list[str]:
        files = (f"--datadir={self._data}", f"--tmpdir={self._temporary}", f"--socket={self.socket}")
        return [*self._binary.options, *files, f"--port={self.port}", *SETTINGS]

    @property
    def environment(self) -> dict[str, str]:
        return self._binary.environment

    def answers(self) -> bool:
        try:
            connect(self.port).close()
        except pymysql.Error as error:
            return bool(error.args[0] != UNREACHABLE)  # it does not let us in
        return True


def connect(port: int, **options: Any) -> pymysql.Connection[Any]:
    """A session on a server of ours, without TLS: reading all certificates of the system takes 50 times as long."""
    given = {"user": "root", "autocommit": True, "ssl_disabled": True, **options}
    return pymysql.connect(host="127.0.0.1", port=port, **given)


@functools.cache
def port() -> int:
    """The port of the server of this run."""
    binary()  # or skip, here
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    folder = Path(tempfile.gettempdir(), f"aiolock-my-{run}")

    def begin() -> str:
        made = Running(folder)
        made.leave()
        return str(made.port)

    return int(running.shared(folder, begin))


@functools.cache
def name() -> str:
    """A database for this process alone."""
    found = f"test_{os.getpid()}"
    with connect(port()) as link:
        link.cursor().execute(f"CREATE DATABASE {found}")
    return found


def url(database: str = "") -> str:
    """Its address, or that of another one."""
    return f"mysql://root@127.0.0.1:{port()}/{database or name()}"


class OwnServer(running.OwnServer):
    """A server of its own.

    Args:
        settings: more of its command line.

    Attributes:
        url: of its database.
        port: where it is.
    """

    running: Running

    def __init__(self, *settings: str) -> None:
        super().__init__(Running, *settings)
        self.port = self.running.port
        with connect(self.port, unix_socket=self.running.socket) as link:
            link.cursor().execute("CREATE DATABASE locks")
        self.url = f"mysql://root@127.0.0.1:{self.port}/locks"

    @property
    def version(self) -> str:
        """What it is."""
        with connect(self.port) as link:
            return link.get_server_info()
