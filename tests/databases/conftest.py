"""Databases of their own, on the servers of this run: each test runs in one of each product."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crossproc.conftest import Crew

from .database import Database
from .mysql.database import MySQLDatabase
from .postgres.database import PostgresDatabase

PRODUCTS = [
    pytest.param(PostgresDatabase, id="postgres"),
    pytest.param(MySQLDatabase, id="mysql", marks=pytest.mark.mysql),
]


@pytest.fixture(params=PRODUCTS, scope="session")
def product(request: pytest.FixtureRequest) -> type[Database]:
    """Each of those that locks can be in."""
    kind: type[Database] = request.param
    return kind


@pytest.fixture
def database(product: type[Database]) -> Iterator[Database]:
    """An empty database."""
    made = product.new()
    yield made
    made.drop()


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
