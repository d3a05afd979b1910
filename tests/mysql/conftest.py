"""Databases of their own, on the server of this run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.crossproc.conftest import Crew
from tests.support import mysql, mysql_side

NUMBERS = count(1)


class Database:
    """One database, seen by its owner.

    Args:
        name: what it is called.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.url = mysql.url(name)

    def run(self, statement: str, *values: object, user: str = "root") -> list[tuple[Any, ...]]:
        """Execute a statement, as somebody; return its rows."""
        with mysql.connect(mysql.port(), database=self.name, user=user) as link, link.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def equip(self, user: str = "root") -> None:
        """Run the schema, as somebody."""
        with mysql.connect(mysql.port(), database=self.name, user=user) as link:
            mysql_side.equip(link)

    def sessions(self) -> list[int]:
        """The numbers of all sessions in it."""
        query = "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> CONNECTION_ID()"
        return [number for (number,) in self.run(query, self.name)]

    def end_sessions(self) -> int:
        """End them, as a restart or a failover does; return how many."""
        found = self.sessions()
        for number in found:
            self.run(f"KILL {number}")
        return len(found)

    def user(self, *grants: str) -> str:
        """Make a user with rights in it; return the URL with which he comes."""
        name = f"u_{self.name}_{next(NUMBERS)}"
        self.run(f"CREATE USER {name}@'%'")
        for grant in grants:
            self.run(f"GRANT {grant} ON {self.name}.* TO {name}@'%'")
        return self.url.replace("root", name)


@pytest.fixture
def database() -> Iterator[Database]:
    """An empty database."""
    name = f"own_{os.getpid()}_{next(NUMBERS)}"
    with mysql.connect(mysql.port()) as link:
        link.cursor().execute(f"CREATE DATABASE {name}")
    yield Database(name)
    with mysql.connect(mysql.port()) as link:
        link.cursor().execute(f"DROP DATABASE {name}")


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
