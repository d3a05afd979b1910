"""Databases of their own, on the server of this run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
import pytest

from tests.crossproc.conftest import Crew
from tests.support import postgres

NUMBERS = count(1)


class Database:
    """One database, seen by its owner.

    Args:
        name: what it is called.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.url = str(postgres.server().get_uri(database=name))

    def run(self, statement: str, *values: object, where: str = "") -> list[tuple[Any, ...]]:
        """Execute a statement; return its rows.

        Args:
            statement: SQL.
            values: of its parameters.
            where: another URL: as who, or to what.
        """
        with psycopg.connect(where or self.url, autocommit=True) as link:
            cursor = link.execute(cast(LiteralString, statement), values or None)
            return cursor.fetchall() if cursor.description else []

    def end_sessions(self) -> int:
        """End all sessions of managers, as a restart or a failover does; return how many."""
        theirs = "FROM pg_stat_activity WHERE datname = %s AND application_name = 'aiolock'"
        return len(self.run(f"SELECT pg_terminate_backend(pid) {theirs}", self.name))


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database."""
    made = Database(f"own_{postgres.dsn().rpartition('test_')[2].partition('?')[0]}_{next(NUMBERS)}")
    made.run(f"CREATE DATABASE {made.name}", where=postgres.dsn())
    yield made
    made.run(f"DROP DATABASE {made.name} WITH (FORCE)", where=postgres.dsn())


@pytest.fixture
def url(database: Database) -> str:
    """Its address."""
    return database.url


@pytest.fixture
def crew(url: str, tmp_path: Path) -> Iterator[Crew]:
    """Workers whose locks are in the database."""
    crew = Crew(url, tmp_path)
    yield crew
    crew.close()
