"""Tests of this folder run on both products of one dialect."""

from __future__ import annotations

import pytest

from .database import MySQLDatabase, RealMySQL


@pytest.fixture(
    scope="session", params=[pytest.param(MySQLDatabase, id="mariadb"), pytest.param(RealMySQL, id="mysql")]
)
def product(request: pytest.FixtureRequest) -> type[MySQLDatabase]:
    """See `tests/databases/conftest.py`."""
    kind: type[MySQLDatabase] = request.param
    return kind
