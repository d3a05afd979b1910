"""Tests of this folder run on one product."""

from __future__ import annotations

import pytest

from .database import PostgresDatabase


@pytest.fixture(scope="session")
def product() -> type[PostgresDatabase]:
    """See `tests/databases/conftest.py`."""
    return PostgresDatabase
