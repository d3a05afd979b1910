"""Answers that are lost: what may still be done late must find nothing, and what is not sure does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiolock import BackendError, LockLost, LockManager
from aiolock.backends.coordinator.store import Away
from aiolock.backends.etcd.link import Link
from aiolock.backends.etcd.messages import TXN
from tests.support.etcd import Etcd

from .test_queues import leases


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[bytes], bool]], None]:
    """Lose the answers to the transactions that match, once each: they are done all the same."""
    ask = Link.ask

    def begin(matches: Callable[[bytes], bool]) -> None:
        async def lossy(self: Link, path: str, body: bytes) -> bytes:
            answer = await ask(self, path, body)
            if path == TXN and matches(body):
                raise Away(BackendError("", "the test has lost the answer", transient=True))
            return answer

        monkeypatch.setattr(Link, "ask", lossy)

    return begin


def once(word: bytes) -> Callable[[bytes], bool]:
    """Whether a request has this word, for the first time."""
    seen: list[bytes] = []

    def matches(body: bytes) -> bool:
        hit = word in body and not seen
        seen.extend([body] if hit else [])
        return hit

    return matches


async def test_the_lease_of_a_doubtful_place_ends_with_it(server: Etcd, locks: LockManager, lose: Any) -> None:
    """A late copy of the request would make it keep a place that nobody has. Kept by `EtcdStore.leave`."""
    before = leases(server)
    lose(once(b'[1,1,1,"'))
    async with locks.lock("a") as lease:
        (pair,) = server.pairs("aiolock/lock/a/", "aiolock/lock/a0")
        assert int(pair["create_revision"]) == lease.fence
        assert not lease.abandoned
        assert pair["lease"] in leases(server)
    async with asyncio.timeout(5):
        while leases(server) - before:  # noqa: ASYNC110 - it is ended after the place
            await asyncio.sleep(0.02)
    async with locks.lock("a") as lease:
        assert not lease.abandoned


async def test_a_renewal_counts_once_the_cluster_has_confirmed_it(locks: LockManager, lose: Any) -> None:
    """One that answers may lead no more. Kept by `EtcdStore.keep`."""
    async with locks.lock("a") as lease:
        own = locks._runtime.backend._places._own[lease._hold.owner]  # type: ignore[attr-defined]
        before, known = own.lasts.renewed, []

        def matches(_: bytes) -> bool:
            known.append(own.lasts.renewed)
            return len(known) == 1

        lose(matches)
        await lease.renew()  # asks again
        assert known == [before, before]
        assert own.lasts.renewed > before


@pytest.mark.parametrize("lost", ["entering", "claiming"])
async def test_the_answer_that_would_have_said_abandoned(server: Etcd, lose: Any, lost: str) -> None:
    """Who asks again finds what it has noted itself. Kept by `_note`: `took`, and `EtcdStore.claim`: `tainted`."""
    async with LockManager(server.url) as locks, LockManager(server.url) as others:
        vanished = await others.lock("a").acquire()
        waiting = asyncio.create_task(locks.lock("a").acquire()) if lost == "claiming" else None
        async with asyncio.timeout(10):
            while len(server.pairs("aiolock/lock/a/", "aiolock/lock/a0")) < 1 + (waiting is not None):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        lose(once(b"#last" if lost == "claiming" else b'[1,1,1,"'))
        server.delete(f"aiolock/lock/a/{vanished._hold.owner}")
        lease = await (locks.lock("a").acquire() if waiting is None else waiting)
        assert lease.abandoned
        await lease.release()
        async with locks.lock("a") as lease:
            assert not lease.abandoned
        with pytest.raises(LockLost):
            await vanished.release()
