"""The listings of wire-format.md are what the library keeps on a server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import redis

from aiolock import Lease, LockManager
from aiolock.recipes import exclusive, once
from aiolock.scripts.bid import Bid
from aiolock.scripts.foreign import used_by
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from tests.support import redis_cli
from tests.support.scripting import LuaSide

from .blocks import ROOT

PAGE = (ROOT / "docs/reference/wire-format.md").read_text(encoding="utf-8")

Stage = Callable[[LockManager, LockManager, redis.Redis, AsyncExitStack], Awaitable[None]]


def listings() -> list[tuple[str, dict[str, str]]]:
    """The keys and their fields, in the order of the page: a name, its value, and perhaps a word about it."""
    found = re.findall(r"^HGETALL (.+)\n((?:  .+\n)+)", PAGE, re.MULTILINE)
    words = [(key, [re.split(r" {2,}", line.strip())[:2] for line in lines.splitlines()]) for key, lines in found]
    return [
        (key, {name: text.replace(r"\n", "\n") for name, text in fields})
        for key, fields in words
        if not key.endswith(":alive")
    ]


def shape(text: str) -> str:
    """The text with the same letter for each word, but for single digits and the names in front of a `=`."""
    return re.sub(r"[\w.…-]{2,}(?![\w.…-]*=)|(?<=:)\d", "x", text)


def shapes(fields: dict[str, str]) -> list[tuple[str, str]]:
    return sorted(
        (shape(name) if ":" in name else name, text if name == "version" else shape(text))
        for name, text in fields.items()
    )


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not check():  # noqa: ASYNC110 - the server does not announce it
            await asyncio.sleep(0.005)


async def nothing(lease: Lease) -> None: ...


async def failure(lease: Lease) -> None:
    raise ZeroDivisionError


def begin(stack: AsyncExitStack, waiter: Awaitable[object]) -> None:
    """Wait for something until the end of the test."""

    async def end() -> None:
        task.cancel()
        await asyncio.wait([task])

    task = asyncio.ensure_future(waiter)
    stack.push_async_callback(end)


async def held(one: LockManager, _: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    await one.lock("order:42").acquire()
    await one.lock("order:42").release()
    await stack.enter_async_context(one.lock("order:42", metadata="charge"))


async def granted(one: LockManager, _: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    async with one.lock("order:42"):
        calls, side = LockCalls(Keys("aiolock"), "order:42", 60_000), LuaSide(link)
        stack.callback(side.close)
        side.run(calls.acquire(Bid("another:1", 60_000, 0, "web-4:1311\nits metadata", 60_000, counted=False)))


async def free(one: LockManager, _: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    async with one.lock("order:42"):
        pass


async def semaphore(one: LockManager, other: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(one.semaphore("api", 5, metadata="import").acquire(3))
    begin(stack, other.semaphore("api", 5).acquire(4))
    await until(lambda: link.zcard("aiolock:semaphore:{api}:order") == 2)


async def rw(one: LockManager, other: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(one.rw_lock("catalog").read)
    begin(stack, other.rw_lock("catalog").write.acquire())
    await until(lambda: link.zcard("aiolock:rw:{catalog}:order") == 2)


async def closed(one: LockManager, _: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    await one.latch("import:7", 3).count_down(by="shard-1")
    await one.latch("import:7", 3).count_down()


async def opened(one: LockManager, _: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    for _count in range(3):
        await one.latch("import:7", 3).count_down()


async def condition(one: LockManager, _: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    async def wait() -> None:
        async with one.lock("order:42") as lease:
            await one.condition(one.lock("order:42")).wait()
            lease.ensure()

    begin(stack, wait())
    await until(lambda: link.exists("aiolock:condition:{order:42}"))


async def runs(one: LockManager, _: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    job = once(one, "report", window=60.0, repeat="failed")
    with pytest.raises(ZeroDivisionError):
        await job.run(failure)
    await job.run(nothing)


async def outcome(one: LockManager, _: LockManager, link: redis.Redis, stack: AsyncExitStack) -> None:
    @exclusive(one, key=lambda: "report", busy="join")
    async def call() -> int:
        return 3

    await call()


STAGES: tuple[Stage, ...] = (held, granted, free, semaphore, closed, opened, condition, runs, outcome)


@pytest.fixture
async def managers(redis_url: str) -> AsyncIterator[tuple[LockManager, LockManager]]:
    async with LockManager(redis_url) as one, LockManager(redis_url) as other:
        yield one, other


def test_each_listing_is_staged() -> None:
    assert len(listings()) == len(STAGES)


@pytest.mark.parametrize("number", range(len(STAGES)), ids=[stage.__name__ for stage in STAGES])
async def test_a_state_is_as_listed(managers: tuple[LockManager, LockManager], redis_url: str, number: int) -> None:
    """Broken by a field that the page does not have, or one too many; by a record of another form."""
    key, listed = listings()[number]
    with redis_cli.client(redis_url) as link:
        async with AsyncExitStack() as stack:
            await STAGES[number](*managers, link, stack)
            kept = {name.decode(): text.decode() for name, text in link.hgetall(key).items()}
        assert shapes(kept) == shapes(listed)


async def test_a_read_write_lock_has_the_same_fields(managers: tuple[LockManager, LockManager], redis_url: str) -> None:
    fields = listings()[STAGES.index(semaphore)][1]
    with redis_cli.client(redis_url) as link:
        async with AsyncExitStack() as stack:
            await rw(*managers, link, stack)
            kept = {name.decode() for name in link.hgetall("aiolock:rw:{catalog}:state")}
        assert {name for name in kept if ":" not in name} == {name for name in fields if ":" not in name}


def test_the_message_is_quoted() -> None:
    assert used_by("0.2", "aiolock:lock:{order:42}") in " ".join(PAGE.split())
