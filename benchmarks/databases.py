"""Servers of databases and coordinators, started for one row: those of the tests."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Absent(Exception):
    """There is none here; the message says why."""


class Database(NamedTuple):
    """A database of its own.

    Attributes:
        url: where it is.
        what: the server and its version.
        sync: say whether a commit waits for the disk.
    """

    url: str
    what: str
    sync: Callable[[bool], object]


@contextmanager
def postgres(*settings: str) -> Iterator[Database]:
    """A PostgreSQL server.

    Args:
        settings: of its own, as "max_connections = 500".

    Raises:
        Absent: there is none.
    """
    try:
        import psycopg

        from tests.support.postgres import OwnServer
    except ImportError as error:
        raise Absent(f"not measured: no {error.name}, which the environment of the tests has") from error
    server = OwnServer()

    def sync(on: bool) -> None:
        with psycopg.connect(server.url, autocommit=True) as link:
            link.execute(f"ALTER SYSTEM SET fsync = {'on' if on else 'off'}")  # type: ignore[arg-type]
            link.execute("SELECT pg_reload_conf()")

    try:
        if settings:
            with psycopg.connect(server.url, autocommit=True) as link:
                for setting in settings:
                    link.execute(f"ALTER SYSTEM SET {setting}")  # type: ignore[arg-type]
            with server.away():
                pass
        yield Database(server.url, server.version, sync)
    finally:
        server.close()


@contextmanager
def mariadb() -> Iterator[Database]:
    """A MariaDB or MySQL server.

    Raises:
        Absent: there is none.
    """
    try:
        import pytest

        from tests.support.mysql import OwnServer, connect
    except ImportError as error:
        raise Absent(f"not measured: no {error.name}, which the environment of the tests has") from error
    try:
        server = OwnServer()
    except pytest.skip.Exception as error:
        raise Absent(f"not measured: {error}") from error

    def sync(on: bool) -> None:
        with connect(server.port) as link:
            link.cursor().execute(f"SET GLOBAL innodb_flush_log_at_trx_commit = {1 if on else 2}")

    try:
        yield Database(server.url, server.version, sync)
    finally:
        server.close()


@contextmanager
def etcd() -> Iterator[Database]:
    """Three members of etcd, which never wait for the disk. Raises: Absent."""
    with _three("etcd", "Etcd") as made:
        yield made


@contextmanager
def zookeeper() -> Iterator[Database]:
    """Three servers of ZooKeeper, which never wait for the disk. Raises: Absent."""
    with _three("zookeeper", "ZooKeeper") as made:
        yield made


@contextmanager
def _three(module: str, name: str) -> Iterator[Database]:
    """Three members, with the helper of the tests in a module.

    Raises:
        Absent: there is none.
    """
    try:
        import pytest

        kind = getattr(importlib.import_module(f"tests.support.{module}"), name)
    except ImportError as error:
        raise Absent(f"not measured: no {error.name}, which the environment of the tests has") from error
    try:
        members = kind(3)
    except pytest.skip.Exception as error:
        raise Absent(f"not measured: {error}") from error
    with members:
        yield Database(members.url, f"{name}, three members", lambda _: None)
