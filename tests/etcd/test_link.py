"""What becomes of a connection to a member when grpclib is as surprised as its users."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from aiolock import LockManager
from aiolock.backends.coordinator.store import Away
from aiolock.backends.etcd.link import Link
from aiolock.backends.etcd.messages import STATUS, TXN, get, txn
from tests.support.etcd import Etcd


async def test_an_error_that_nobody_expects_is_a_failed_connection(server: Etcd, monkeypatch: Any) -> None:
    """Such as those of h2 about a connection that is closed already. Kept by `Link._translated`."""
    failures: list[Exception] = []
    link = Link("127.0.0.1", server.members[0].port, None, failures.append)
    await link.ask(STATUS, b"")
    monkeypatch.setattr("grpclib.client.Stream.send_message", None)
    with pytest.raises(Away, match="not callable"):
        await link.ask(TXN, txn([], [get(b"a")]))
    assert [type(error) for error in failures] == [TypeError]
    monkeypatch.undo()
    with pytest.raises(Away, match="is closed") as caught:
        await link.ask(STATUS, b"")
    assert not caught.value.ran


async def test_it_is_connected_again_whatever_happens(locks: LockManager, monkeypatch: Any) -> None:
    """Kept by `EtcdCluster._reconnect`."""
    lease = await locks.lock("a").acquire()
    cluster = locks._runtime.backend._store._cluster  # type: ignore[attr-defined]
    monkeypatch.setattr("grpclib.client.Stream.send_request", None)
    cluster._link.fail(ConnectionError("the test has ended it"))
    await asyncio.sleep(0.2)
    monkeypatch.undo()
    async with asyncio.timeout(10):
        await cluster.link()
        await lease.release()
        async with locks.lock("a"):
            pass


async def test_what_waits_for_an_answer_ends_with_the_connection(server: Etcd) -> None:
    """Also what waits to be connected anew. Kept by `Link.close`."""
    held = socket.create_server(("127.0.0.1", 0))  # it takes connections, and says nothing
    port = held.getsockname()[1]
    link = Link("127.0.0.1", port, None, lambda _: None)
    asking = asyncio.create_task(link.ask(STATUS, b""))
    await asyncio.sleep(0.05)
    link.close()
    with pytest.raises(Away):
        await asking
    silent = Link("127.0.0.1", port, None, lambda _: None)
    silent.patience = 0.1
    with pytest.raises(Away, match=r"no answer within 0\.1 s"):
        await silent.ask(STATUS, b"")
    assert silent.closed
    held.close()
