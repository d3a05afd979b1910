"""A real MariaDB or MySQL server: one for all workers of a run, and a database for each."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pytest
from pymysql import Error as Error

from aiolock.testing.server import _free_port

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


class Running:
    """A server with its files in a folder.

    Args:
        folder: empty, or one that was used before.
        settings: more of its command line.

    Attributes:
        port, socket: where it is.
    """

    def __init__(self, folder: Path, *settings: str) -> None:
        self._settings = settings
        self._binary = binary()
        self._data = folder / "data"
        self._temporary = folder / "tmp"  # a server that starts deletes what others have in a folder that they share
        self._temporary.mkdir(exist_ok=True)
        self.socket = str(folder / "s")
        self.port = _free_port()
        self._log = folder / "log"
        if not self._data.exists():
            self._make()
        self.start()

    def start(self) -> None:
        """Start it; return once it answers."""
        options = [
            f"--datadir={self._data}",
            f"--tmpdir={self._temporary}",
            f"--port={self.port}",
            f"--socket={self.socket}",
            *SETTINGS,
            *self._settings,
        ]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._binary.options, *options], env=self._binary.environment, stdin=-3, stdout=log, stderr=log
            )
        until = time.monotonic() + 60
        while True:
            try:
                connect(self.port).close()
                return
            except pymysql.Error as error:
                if error.args[0] != UNREACHABLE:  # it does not let us in
                    return
                if time.monotonic() > until or self.process.poll() is not None:
                    raise AssertionError(f"it does not run: {self._log.read_text()[-2000:]}") from error
                time.sleep(0.02)

    def stop(self) -> None:
        """End it as in a crash."""
        self.process.kill()
        self.process.wait(20)

    def _make(self) -> None:
        share = self._binary.share or next(
            (path for path in (self._binary.path.parent.parent / "share").glob("m*") if (path / "charsets").exists()),
            None,
        )
        log = self._log.open("ab")
        if self._binary.mariadb:
            assert share is not None
            (self._data / "mysql").mkdir(parents=True)
            names = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
            found = [next(share.glob(name.replace("mysql_", "m*_", 1))) for name in names]
            lines = ["use mysql;\n", "SET @auth_root_socket=NULL;\n", *(path.read_text() for path in found)]
            command = [*self._binary.options, "--bootstrap", f"--datadir={self._data}", f"--tmpdir={self._temporary}"]
            text = "".join(lines)
        else:
            command, text = [*self._binary.options, "--initialize-insecure", f"--datadir={self._data}"], ""
        with log:
            subprocess.run(
                command, env=self._binary.environment, input=text, text=True, stdout=log, stderr=log, check=True
            )


def connect(port: int, **options: Any) -> pymysql.Connection[Any]:
    """A session on a server of ours, without TLS: reading all certificates of the system takes 50 times as long."""
    given = {"user": "root", "autocommit": True, "ssl_disabled": True, **options}
    return pymysql.connect(host="127.0.0.1", port=port, **given)


@functools.cache
def port() -> int:
    """The port of the server of this run. It ends, and its files go, when the last process ends that has asked for it:
    its keeper waits for the lock that each of them shares.
    """
    binary()  # or skip, here
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    folder = Path(tempfile.gettempdir(), f"aiolock-my-{run}")
    with locked(Path(f"{folder}.lock")):
        folder.mkdir(exist_ok=True)
        fcntl.flock(os.open(folder / "users", os.O_RDWR | os.O_CREAT), fcntl.LOCK_SH)  # until this process ends
        told = folder / "port"
        if not told.exists():
            keeper = [sys.executable, "-c", f"from tests.support.mysql import keep; keep({str(folder)!r})"]
            with (folder / "keeper").open("wb") as log:
                started = subprocess.Popen(keeper, stdin=-3, stdout=log, stderr=log, start_new_session=True)
                started.returncode = 0  # it outlives us: nobody waits for it
            until = time.monotonic() + 60
            while not told.exists():
                assert time.monotonic() < until, (folder / "keeper").read_text()
                time.sleep(0.02)
        return int(told.read_text())


def keep(folder: str) -> None:
    """Run a server while somebody uses it."""
    server = Running(Path(folder))
    try:
        written = Path(folder, "port.new")
        written.write_text(str(server.port))
        written.rename(Path(folder, "port"))
        with Path(folder, "users").open("w") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
        Path(f"{folder}.lock").unlink(missing_ok=True)


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


class OwnServer:
    """A server of its own.

    Args:
        settings: more of its command line.

    Attributes:
        url: of its database.
        port: where it is.
    """

    def __init__(self, *settings: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="aiolock-my-"))
        try:
            self._server = Running(self._folder, *settings)
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        self.port = self._server.port
        with connect(self.port, unix_socket=self._server.socket) as link:
            link.cursor().execute("CREATE DATABASE locks")
        self.url = f"mysql://root@127.0.0.1:{self.port}/locks"

    @property
    def version(self) -> str:
        """What it is."""
        with connect(self.port) as link:
            return link.get_server_info()

    @contextmanager
    def away(self) -> Iterator[None]:
        """It ends as in a crash, and is there again afterwards."""
        self._server.stop()
        yield
        self._server.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It does not run."""
        self._server.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._server.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it; its files go."""
        self._server.stop()
        shutil.rmtree(self._folder)
