"""A server of its own kind, empty."""

from __future__ import annotations

import pytest

from tests.support import zookeeper


@pytest.fixture
def server() -> zookeeper.ZooKeeper:
    """Shared by the tests of a worker, and empty."""
    found = zookeeper.shared()
    found.flush()
    return found
