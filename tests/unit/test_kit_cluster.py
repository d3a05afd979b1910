"""`aiolock.testing.cluster.RedisCluster`, as far as it needs no server."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from aiolock.backends.cluster.slots import SLOTS, slot_of
from aiolock.scripts.keys import Keys
from aiolock.testing import cluster


@pytest.mark.parametrize("name", ["order:42", "a{b}c", "100%", "{}"])
def test_the_master_of_a_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys encode braces. Kept by RedisCluster.master_of: the slot is that of the lock's key."""
    slot = slot_of(Keys("aiolock").of("lock", name).lock)
    ranges = [[0, slot - 1, [b"h", 1]], [slot, slot, [b"h", 2]], [slot + 1, SLOTS - 1, [b"h", 1]]]
    monkeypatch.setattr(cluster, "_connect", lambda url: nullcontext())
    monkeypatch.setattr(cluster, "_ask", lambda link, *words: ranges)
    servers: Any = [SimpleNamespace(port=port, url="redis://h") for port in (1, 2)]
    assert cluster.RedisCluster(servers, ExitStack()).master_of(name) is servers[1]
