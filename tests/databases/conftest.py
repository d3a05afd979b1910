"""Databases of their own, on the servers of this run: each test runs in one of each product."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crossproc.conftest import Crew

from .database import Database
from .mysql.database import MySQLDatabase, RealMySQL
from .postgres.database import PostgresDatabase

HERE = Path(__file__).parent
DIALECT = ("test_database.py", "test_exchange.py", "test_hand_off.py", "test_clock.py", "test_cli.py")
"""What MySQL may do otherwise than MariaDB: these run on both in `make test`, the others in `make test-slow`."""
PRODUCTS = [
    pytest.param(PostgresDatabase, id="postgres"),
    pytest.param(MySQLDatabase, id="mariadb", marks=pytest.mark.mysql),
    pytest.param(RealMySQL, id="mysql", marks=pytest.mark.mysql),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See DIALECT."""
    for item in items:
        given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if given.get("product") is RealMySQL and item.path.parent == HERE and item.path.name not in DIALECT:
            item.add_marker(pytest.mark.slow)


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
