"""Preludes of the pages about metrics and traces."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

Namespace = dict[str, Any]


@asynccontextmanager
async def gunicorn_hook(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines `child_exit`: it removes what a worker that ended still held."""
    namespace: Namespace = {}
    yield namespace
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROMETHEUS_MULTIPROC_DIR", folder)
        held = Path(folder) / "gauge_livesum_4711.db"
        held.touch()
        namespace["child_exit"](None, SimpleNamespace(pid=4711))
        assert not held.exists()
