"""Real servers of MariaDB and of MySQL: one of each for all workers of a run, and a database for each."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pymysql
import pytest
from pymysql import Error as Error

from aiolock.testing.server import _free_port

from . import running
from .debian import UNSTABLE, program

FOLDER = "AIOLOCK_TEST_MYSQL"
"""Names the folder of the server that all tests use in place of both."""
SETTINGS = (
    *("--bind-address=127.0.0.1", "--max-connections=500", "--skip-name-resolve", "--performance-schema=OFF"),
    *("--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M", "--sync-binlog=0"),
    *("--secure-file-priv=", "--loose-mysqlx=OFF"),
)
"""What is written survives all that tests do to it: processes end, the machine does not."""
REMOTE = "CREATE USER root@'%';\nGRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"
"""MySQL knows nobody who comes from an address."""


UNREACHABLE = 2003
"""What a client calls it if nobody listens."""


class Product(NamedTuple):
    """MariaDB or MySQL.

    Attributes:
        name: what it is called.
        program: its server.
        packages: Debian's, and what some Ubuntus call it.
        sources: where apt finds them; "" for the system's.
    """

    name: str
    program: str
    packages: tuple[str, ...]
    sources: str


MARIADB = Product(
    "MariaDB", "mariadbd", ("mariadb-server-core", "mariadb-server-core-10.6", "mariadb-server-core-10.11"), ""
)
MYSQL = Product("MySQL", "mysqld", ("mysql-server-core",), UNSTABLE)


def version_of(path: Path) -> tuple[str, str]:
    """What a program says that it is, as "MariaDB" and "10.11.6"."""
    said = subprocess.run([path, "--no-defaults", "--version"], capture_output=True, text=True).stdout
    number = re.search(r"\d+\.\d+\.\d+", said)
    return "MariaDB" if "MariaDB" in said else "MySQL", number[0] if number else ""


@functools.cache
def binary(product: Product) -> Path:
    """A server that is installed; or else Debian's package, unpacked beside our Python without any rights. Skips the
    test if there is none.
    """
    own = os.environ.get(FOLDER)
    path = own or os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/libexec"])
    for name in (MARIADB.program, MYSQL.program):
        found = shutil.which(name, path=path)
        if found and (own or version_of(Path(found))[0] == product.name):
            return Path(found)
    unpacked = None if own else program(product.program, product.program, product.packages, product.sources)
    if unpacked is None:
        again = f"install one, or delete {Path(sys.prefix, product.program)} to look again"
        pytest.skip(f"no {product.program} in {own or 'PATH, nor in apt'}: {again}")
    return unpacked


class Running(running.Running):
    """A MariaDB or MySQL.

    Attributes:
        port, socket: where it is.
    """

    def __init__(self, folder: Path, *settings: str, product: Product = MARIADB) -> None:
        self._product = product
        super().__init__(folder, *settings)

    def make(self) -> None:
        path = binary(self._product)
        base = path.resolve().parent.parent
        user = [] if os.getuid() else ["--user=root"]
        self._begin = [str(path), "--no-defaults", *user, f"--basedir={base}"]
        self._data = self.folder / "data"
        self._temporary = (
            self.folder / "tmp"
        )  # a server that starts deletes what others have in a folder that they share
        self._temporary.mkdir()
        self.socket = str(self.folder / "s")
        self.port = _free_port()
        where = (f"--datadir={self._data}", f"--tmpdir={self._temporary}")
        if version_of(path)[0] == MYSQL.name:
            first = self.folder / "first.sql"
            first.write_text(REMOTE)
            self.run(*self._begin, "--initialize-insecure", *where, f"--init-file={first}")
            return
        share = next(one for one in (base / "share").glob("m*") if (one / "charsets").exists())
        (self._data / "mysql").mkdir(parents=True)
        names = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
        found = [next(share.glob(name.replace("mysql_", "m*_", 1))) for name in names]
        lines = ["use mysql;\n", "SET @auth_root_socket=NULL;\n", *(path.read_text() for path in found)]
        self.run(*self._begin, "--bootstrap", *where, given="".join(lines))

    def command(self) -> list[str]:
        files = (f"--datadir={self._data}", f"--tmpdir={self._temporary}", f"--socket={self.socket}")
        return [*self._begin, *files, f"--port={self.port}", *SETTINGS]

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
def port(product: Product = MARIADB) -> int:
    """The port of the server of this run."""
    binary(product)  # or skip, here
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    folder = Path(tempfile.gettempdir(), f"aiolock-{product.program}-{run}")

    def begin() -> str:
        made = Running(folder, product=product)
        made.leave()
        return str(made.port)

    return int(running.shared(folder, begin))


@functools.cache
def name(product: Product = MARIADB) -> str:
    """A database for this process alone."""
    found = f"test_{os.getpid()}"
    with connect(port(product)) as link:
        link.cursor().execute(f"CREATE DATABASE {found}")
    return found


def url(database: str = "", product: Product = MARIADB) -> str:
    """Its address, or that of another one."""
    return f"mysql://root@127.0.0.1:{port(product)}/{database or name(product)}"


class OwnServer(running.OwnServer):
    """A server of its own.

    Args:
        settings: more of its command line.

    Attributes:
        url: of its database.
        port: where it is.
    """

    running: Running
    product: ClassVar[Product] = MARIADB

    def __init__(self, *settings: str) -> None:
        super().__init__(functools.partial(Running, product=self.product), *settings)
        self.port = self.running.port
        with connect(self.port, unix_socket=self.running.socket) as link:
            link.cursor().execute("CREATE DATABASE locks")
        self.url = f"mysql://root@127.0.0.1:{self.port}/locks"

    @property
    def version(self) -> str:
        """What it is."""
        with connect(self.port) as link:
            return link.get_server_info()


class OwnMySQL(OwnServer):
    """MySQL itself."""

    product = MYSQL
