"""A file of locks, and processes that share it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crossproc.conftest import Crew


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def crew(url: str, tmp_path: Path) -> Iterator[Crew]:
    """Workers on the file."""
    crew = Crew(url, tmp_path)
    yield crew
    crew.close()
