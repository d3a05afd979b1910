"""Tests of this folder run on one product."""

from __future__ import annotations

import pytest

from .database import MySQLDatabase


@pytest.fixture(scope="session")
def product() -> type[MySQLDatabase]:
    """See `tests/databases/conftest.py`."""
    return MySQLDatabase
