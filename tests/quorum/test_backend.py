"""The parts of a quorum, how you enter and leave it, and what it does not offer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio

from aiolock import BackendError, ConfigurationError, Lock, LockManager, QuorumError
from aiolock.backends.base import Backend
from aiolock.backends.quorum import QuorumBackend
from aiolock.manager_options import ManagerOptions, QuorumOptions
from aiolock.scripts.bid import Bid
from aiolock.testing import MemoryBackend

from .world import NAME, Link, Trio, calls_of, keys_of

URLS = ["redis://a:6379/0", "redis://b:6379/0", "redis://c:6379/0"]


def client(url: str) -> redis.asyncio.Redis:
    return redis.asyncio.Redis.from_url(url)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "none": (lambda: LockManager.quorum([]), "3 or more"),
    "one": (lambda: LockManager.quorum(URLS[:1]), r"LockManager\(url\)"),
    "two": (lambda: LockManager.quorum(URLS[:2]), "3 or more"),
    "twice": (lambda: LockManager.quorum([*URLS, "redis://b/1"]), "b:6379 is in the quorum more than once"),
    "a client twice": (lambda: LockManager.quorum([*URLS[:2], client(URLS[1])]), "more than once"),
    "databases": (lambda: LockManager.quorum([*URLS[:2], "redis://c:6379/3"]), "same database number"),
    "a URL": (lambda: LockManager.quorum(URLS[0]), "a list of servers"),
    "no URL": (lambda: LockManager.quorum([*URLS[:2], "http://c"]), "http:// is not supported"),
    "an option": (lambda: LockManager.quorum(URLS, ttl=0.01), "ttl"),
    "a timeout": (lambda: LockManager.quorum(URLS, request_timeout=-1), "request_timeout"),
}


@pytest.mark.parametrize(("make", "saying"), BAD.values(), ids=BAD)
def test_what_does_not_work(make: Callable[[], Any], saying: str) -> None:
    with pytest.raises(ConfigurationError, match=saying):
        make()


def test_what_works() -> None:
    """No I/O, no loop. Four nodes survive as many failures as three."""
    for urls in (URLS, [*URLS, "redis://d"], [*URLS, "redis://d", "unix:///tmp/e"]):
        assert "holds" in repr(LockManager.quorum(urls)) or "closed" in repr(LockManager.quorum(urls))


def test_its_options_are_those_of_the_manager() -> None:
    """Except those about queues and replicas."""
    others = {"source", "liveness", "min_replicas", "replica_timeout"}
    known = inspect.signature(LockManager).parameters.keys()
    assert QuorumOptions.__annotations__.keys() == known - others
    assert ManagerOptions.__annotations__.keys() == known - {"source"}


ONE_SERVER: dict[str, Callable[[LockManager], object]] = {
    "fair locks": lambda locks: locks.fair_lock(NAME),
    "read-write locks": lambda locks: locks.rw_lock(NAME),
    "semaphores": lambda locks: locks.semaphore(NAME, 3),
    "latches": lambda locks: locks.latch(NAME, 3),
}


@pytest.mark.parametrize(("what", "make"), ONE_SERVER.items(), ids=ONE_SERVER)
def test_what_needs_one_server_says_so(what: str, make: Callable[[LockManager], object]) -> None:
    with pytest.raises(ConfigurationError, match=f"{what} are not offered by a quorum") as caught:
        make(LockManager.quorum(URLS))
    assert caught.value.name == NAME
    make(LockManager(URLS[0]))


async def test_a_lease_does_not_move(here: Lock, locks: LockManager) -> None:
    """A move might happen on some nodes only."""
    async with LockManager(MemoryBackend()) as single:
        ticket = await (await single.lock(NAME).acquire()).detach()
    with pytest.raises(ConfigurationError, match="tickets are not offered"):
        locks.resume(ticket)
    async with here as lease:
        with pytest.raises(ConfigurationError, match="tickets are not offered"):
            await lease.detach()
        assert not lease.released


async def test_a_script_it_does_not_know_is_refused(trio: Trio, links: list[Link], locks: LockManager) -> None:
    """A transfer would move the lock on some nodes only."""
    call = calls_of().resume("a:1", 1, Bid("a:2", 30_000, 0, ""), False)
    with pytest.raises(BackendError, match="does not offer transfer"):
        await locks._runtime.backend.run(call)


async def test_it_is_a_backend(trio: Trio, links: list[Link]) -> None:
    backend = QuorumBackend(links)
    assert isinstance(backend, Backend)
    assert (backend.nodes, backend.db, repr(backend)) == (3, 0, "<QuorumBackend nodes=3 ready=0>")
    with pytest.raises(BackendError, match="closed"):
        await backend.run(calls_of().info())
    with pytest.raises(BackendError, match="closed"):
        await backend.subscribe("channel", lambda payload: None)
    backend.unsubscribe("channel")
    await backend.aclose()


# Entering.


async def test_a_majority_is_enough_to_enter_and_the_third_joins(trio: Trio, links: list[Link]) -> None:
    """Kept by Node.open, which keeps trying, and QuorumBackend._told, which subscribes there."""
    links[1].down = True
    async with trio.manager(links) as locks, trio.manager(trio.links()) as others:
        async with locks.lock(NAME):
            assert trio.held() == [True, False, True]
            waiter = asyncio.ensure_future(others.lock(NAME).acquire())
            await trio.clock.advance(1.0)
        await trio.clock.advance(1.0)
        lease = await waiter
        waiting = asyncio.ensure_future(locks.lock(NAME).acquire())
        await trio.clock.advance(1.0)
        links[1].down = False
        async with asyncio.timeout(10):
            while links[1]._loop is None:  # noqa: ASYNC110 - Node.open tries again on the real clock
                await asyncio.sleep(0.01)
        assert trio.stores[1].numsub(keys_of().free) == 1
        await lease.release()
        await trio.clock.advance(1.0)
        async with asyncio.timeout(10):
            third = await waiting
        assert trio.held() == [True] * 3
        await third.release()


async def test_without_a_majority_it_cannot_be_entered(trio: Trio, links: list[Link]) -> None:
    """And nothing stays open."""
    links[0].down = links[2].down = True
    manager = trio.manager(links)
    with pytest.raises(QuorumError, match="2 of 3 nodes must be connected") as caught:
        await manager.__aenter__()
    assert caught.value.transient
    assert [outcome.partition(": ")[2][:12] for outcome in caught.value.outcomes] == [
        "Redis cannot", "connected", "Redis cannot",
    ]  # fmt: skip
    assert isinstance(caught.value.__cause__, BackendError)
    assert all(link._loop is None for link in links)
    links[0].down = False
    async with asyncio.timeout(10), manager:
        pass


async def test_what_could_not_be_opened_is_closed(trio: Trio, links: list[Link]) -> None:
    """Kept by QuorumBackend.open, whoever called it."""
    links[0].down = links[2].down = True
    backend = QuorumBackend(links)
    for _ in range(2):
        with pytest.raises(QuorumError):
            await backend.open(timeout=1.0, reconnected=lambda: None)
        assert links[1]._loop is None


async def test_a_server_that_is_too_old_is_an_error_of_configuration(trio: Trio, links: list[Link]) -> None:
    async def open(**_: object) -> None:
        raise ConfigurationError("", "the server is Redis 5.0.3: Redis 6 or newer is needed")

    links[2].open = open  # type: ignore[method-assign, assignment]
    with pytest.raises(ConfigurationError, match=r"5\.0\.3"):
        await trio.manager(links).__aenter__()
    assert all(link._loop is None for link in links)


async def test_it_can_be_entered_again(trio: Trio, links: list[Link]) -> None:
    manager = trio.manager(links)
    for _ in range(2):
        async with manager, manager.lock(NAME):
            assert trio.held() == [True] * 3
        assert trio.held() == [False] * 3


async def test_closing_fails_requests_on_their_way(trio: Trio, links: list[Link]) -> None:
    backend = QuorumBackend(links)
    await backend.open(timeout=1.0, reconnected=lambda: None)
    with pytest.raises(ConfigurationError, match="open"):
        await backend.open(timeout=1.0, reconnected=lambda: None)
    outages = [link.outage() for link in links]
    for outage in outages:
        outage.__enter__()
    look = backend.run(calls_of().info())
    told = backend.subscribe("channel", lambda payload: None)
    await backend.aclose()
    with pytest.raises(QuorumError):
        await look
    with pytest.raises(BackendError):
        await told
    assert not backend._members.granted


# Channels.


async def test_a_subscription_that_most_nodes_refuse_is_refused(trio: Trio, links: list[Link]) -> None:
    def refuse(channel: str, wake: object) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_exception(BackendError("", "NOPERM"))
        return future

    for link in links[:2]:
        link.subscribe = refuse  # type: ignore[method-assign, assignment]
        link.unsubscribe = lambda channel: None  # type: ignore[method-assign]
    backend = QuorumBackend(links)
    await backend.open(timeout=1.0, reconnected=lambda: None)
    with pytest.raises(QuorumError, match="must confirm a subscription") as caught:
        await backend.subscribe("channel", lambda payload: None)
    assert not caught.value.transient
    await backend.aclose()


async def test_a_late_refusal_counts_once_most_nodes_refuse(trio: Trio, links: list[Link]) -> None:
    """As after reconnects. Kept by Subscription._heard: after one node's refusal no one polls."""
    heard: list[object] = []
    backend = QuorumBackend(links)
    await backend.open(timeout=1.0, reconnected=lambda: None)
    await backend.subscribe("channel", heard.append)
    for link, told in zip(links[:2], (1, 2), strict=True):
        link._wakes["channel"](BackendError("", "NOPERM"))
        await trio.clock.advance(1.0)
        assert len(heard) == told
    assert isinstance(heard[-1], QuorumError)
    assert not heard[-1].transient
    await backend.aclose()


async def test_one_message_from_three_nodes_wakes_once(trio: Trio, links: list[Link]) -> None:
    """When a majority has sent it. Kept by Subscription._heard: `quorum`."""
    heard: list[str | None] = []
    backend = QuorumBackend(links)
    await backend.open(timeout=1.0, reconnected=lambda: None)
    await backend.subscribe("channel", heard.append)
    assert heard == [None]
    for store, known in zip(trio.stores, ([None], [None, "a:1 7"], [None, "a:1 7"]), strict=True):
        store.publish("channel", "a:1 7")
        await trio.clock.advance(0)
        assert heard == known
    await trio.clock.advance(0.1)
    assert heard == [None, "a:1 7"]
    await backend.aclose()


async def test_a_message_from_one_node_wakes_later(trio: Trio, links: list[Link]) -> None:
    """The others may have lost theirs. Kept by Subscription._deliver."""
    heard: list[str | None] = []
    backend = QuorumBackend(links)
    await backend.open(timeout=1.0, reconnected=lambda: None)
    await backend.subscribe("channel", heard.append)
    trio.stores[0].publish("channel", "a:1 7")
    await trio.clock.advance(0)
    assert heard == [None]
    await trio.clock.advance(0.1)
    assert heard == [None, "a:1 7"]
    trio.stores[0].publish("channel", "late")
    await trio.clock.advance(0)
    backend.unsubscribe("channel")
    await trio.clock.advance(0.1)
    assert heard == [None, "a:1 7"]
    await backend.aclose()


async def test_a_confirmation_after_a_reconnect_wakes(trio: Trio, links: list[Link]) -> None:
    heard: list[str | None] = []
    backend = QuorumBackend(links)
    await backend.open(timeout=1.0, reconnected=lambda: None)
    await backend.subscribe("channel", heard.append)
    with links[0].outage():
        pass
    await trio.clock.advance(0.1)
    assert heard == [None, None]
    await backend.aclose()


async def test_every_node_verifies_holds_when_it_is_back(trio: Trio, links: list[Link]) -> None:
    back: list[int] = []
    backend = QuorumBackend(links)
    await backend.open(timeout=1.0, reconnected=lambda: back.append(1))
    for link in links:
        with link.outage():
            pass
    assert back == [1, 1, 1]
    await backend.aclose()
