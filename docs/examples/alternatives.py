"""One task, selling a limited stock, in seven ways. Prints how fast each is, and how right.

    python docs/examples/alternatives.py [--processes 4] [--customers 800] [--rounds 5]

Each customer buys one item of one of four skus: read what is left, pay (2 ms), write. There are a quarter fewer items
than customers. All processes sell at once, in each way in turn, from one SQLite file. A customer has paid in vain if
another one got the item. Rates are medians, the other columns are sums.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from aiolock import LockManager
from aiolock.testing.server import RedisServer

SKUS = 4
PAYMENT = 0.002
TOGETHER = 25
"""Customers that a process serves at once."""
SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE stock (sku TEXT PRIMARY KEY, quantity INTEGER, version INTEGER DEFAULT 0, fence INTEGER DEFAULT 0);
CREATE TABLE sales (sku TEXT, item INTEGER, customer TEXT, UNIQUE (sku, item));
"""


class Shop:
    """One process of the shop: its connections, and how often a customer paid for nothing."""

    def __init__(self, database: str, locks: LockManager, redis: Redis, me: int, processes: int) -> None:
        # No fsync: you would measure the disk.
        self.db = sqlite3.connect(database, isolation_level=None, timeout=10.0)
        self.db.execute("PRAGMA synchronous = OFF")
        self.locks, self.redis, self.me, self.processes = locks, redis, me, processes
        self.in_vain = 0
        self.busy: dict[str, asyncio.Lock] = {}

    def one(self, query: str, *values: object) -> Any:
        return self.db.execute(query, values).fetchone()

    def change(self, statement: str, *values: object) -> bool:
        return self.db.execute(statement, values).rowcount > 0

    def sold(self, sku: str, customer: str, item: int | None = None) -> None:
        self.db.execute("INSERT INTO sales VALUES (?, ?, ?)", (sku, item, customer))

    async def pay(self) -> None:
        await asyncio.sleep(PAYMENT)


async def no_lock(shop: Shop, sku: str, customer: str) -> None:
    """What goes wrong: others sell between the read and the write."""
    (left,) = shop.one("SELECT quantity FROM stock WHERE sku = ?", sku)
    if left > 0:
        await shop.pay()
        shop.change("UPDATE stock SET quantity = ? WHERE sku = ?", left - 1, sku)
        shop.sold(sku, customer)


async def lock(shop: Shop, sku: str, customer: str) -> None:
    """One customer of a sku at a time, in all processes."""
    async with shop.locks.lock(f"sku:{sku}") as lease:
        (left,) = shop.one("SELECT quantity FROM stock WHERE sku = ?", sku)
        if left > 0:
            await shop.pay()
            if shop.change(
                "UPDATE stock SET quantity = ?, fence = ? WHERE sku = ? AND fence < ?",
                left - 1, lease.fence, sku, lease.fence,
            ):  # fmt: skip
                shop.sold(sku, customer)


async def version(shop: Shop, sku: str, customer: str) -> None:
    """Write only if no one wrote since; otherwise the work was in vain, and begins again."""
    while True:
        left, known = shop.one("SELECT quantity, version FROM stock WHERE sku = ?", sku)
        if left < 1:
            return
        await shop.pay()
        if shop.change(
            "UPDATE stock SET quantity = ?, version = version + 1 WHERE sku = ? AND version = ?", left - 1, sku, known
        ):
            shop.sold(sku, customer)
            return
        shop.in_vain += 1


async def condition(shop: Shop, sku: str, customer: str) -> None:
    """Reserve in one statement, then pay. A payment that fails would give the item back."""
    if shop.change("UPDATE stock SET quantity = quantity - 1 WHERE sku = ? AND quantity > 0", sku):
        await shop.pay()
        shop.sold(sku, customer)


async def unique(shop: Shop, sku: str, customer: str) -> None:
    """Each item has a number, and the database refuses to sell one twice."""
    (most,) = shop.one("SELECT quantity FROM stock WHERE sku = ?", sku)
    while True:
        (item,) = shop.one("SELECT coalesce(max(item), 0) + 1 FROM sales WHERE sku = ?", sku)
        if item > most:
            return
        try:
            shop.sold(sku, customer, item)
        except sqlite3.IntegrityError:
            continue  # another process took it: nothing was paid yet
        await shop.pay()
        return


async def owner(shop: Shop, sku: str, customer: str) -> None:
    """Each sku belongs to one process, found by hashing; the others send it their customers."""
    mine = max(range(shop.processes), key=lambda number: hashlib.sha1(f"{number} {sku}".encode()).digest())
    answer = f"answer:{sku}:{customer}"
    await shop.redis.rpush(f"owner:{mine}", json.dumps([sku, customer, answer]))  # type: ignore[misc]
    await shop.redis.blpop([answer], timeout=30)  # type: ignore[misc]


async def queue(shop: Shop, sku: str, customer: str) -> None:
    """The customer only orders. One process sells, order after order."""
    await shop.redis.rpush("owner:0", json.dumps([sku, customer, ""]))  # type: ignore[misc]


Way = Callable[[Shop, str, str], Awaitable[None]]
WAYS: dict[str, Way] = {way.__name__: way for way in (no_lock, lock, version, condition, unique, owner, queue)}
SHOWN = {
    "no_lock": "no lock",
    "lock": "`aiolock`, with a fence",
    "version": "version column",
    "condition": "condition in the write",
    "unique": "unique constraint",
    "owner": "one owner by hashing",
    "queue": "queue, one seller",
}


async def serve(shop: Shop, one_by_one: bool) -> None:
    """The loop of an owner: sell what it is sent, with a lock in this process for each sku."""

    async def sell(sku: str, customer: str, answer: str) -> None:
        async with shop.busy.setdefault(sku, asyncio.Lock()):
            await no_lock(shop, sku, customer)
        await shop.redis.rpush(answer or "done", 1)  # type: ignore[misc]

    async with asyncio.TaskGroup() as sales:
        while True:
            _, order = await shop.redis.blpop([f"owner:{shop.me}"], timeout=0)  # type: ignore[misc]
            if one_by_one:
                await sell(*json.loads(order))
            else:
                sales.create_task(sell(*json.loads(order)))


async def sell_all(shop: Shop, name: str, run: str, customers: int) -> None:
    """Serve this process's share of the customers, some of them at once."""
    numbers = iter(range(shop.me, customers, shop.processes))

    async def clerk() -> None:
        for number in numbers:
            await WAYS[name](shop, f"{run}-{number // shop.processes % SKUS}", f"customer {number}")

    server = asyncio.create_task(serve(shop, name == "queue"))
    async with asyncio.TaskGroup() as clerks:
        for _ in range(TOGETHER):
            clerks.create_task(clerk())
    if name == "queue" and shop.me == 0:
        for _ in range(customers):
            await shop.redis.blpop(["done"], timeout=30)  # type: ignore[misc]
    if name == "owner":  # others may still need this one
        await shop.redis.incr("finished")
        while int(await shop.redis.get("finished") or 0) % shop.processes:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    server.cancel()
    await asyncio.wait((server,))


async def work(url: str, database: str, me: int, processes: int, customers: int) -> None:
    """A process of the shop: each line that it reads is one way to go through."""
    async with LockManager(url) as locks, Redis.from_url(url, socket_timeout=None) as redis:
        shop = Shop(database, locks, redis, me, processes)
        print("ready", flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).split():
            shop.in_vain = 0
            await sell_all(shop, *line, customers)
            print(shop.in_vain, flush=True)
        shop.db.close()


async def measure(url: str, processes: int, customers: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return for each way: sales per second (the median), and in all rounds items oversold and paid for in vain."""
    stock = customers * 3 // 4 // SKUS
    seen: dict[str, dict[str, Any]] = {name: {"rates": [], "oversold": 0, "vain": 0, "unsold": 0} for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "shop.sqlite")
        db = sqlite3.connect(database, isolation_level=None)
        db.executescript(SCHEMA)
        workers = []
        for me in range(processes):
            words = [sys.executable, __file__, "--work", str(me), "--url", url, "--database", database]
            words += ["--processes", str(processes), "--customers", str(customers)]
            pipe = asyncio.subprocess.PIPE
            workers.append(await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe))
        try:
            for worker in workers:
                await worker.stdout.readline()  # type: ignore[union-attr]
            for number in range(rounds):
                for name, found in seen.items():
                    run = f"{name}-{number}"
                    skus = [f"{run}-{sku}" for sku in range(SKUS)]
                    db.executemany("INSERT INTO stock (sku, quantity) VALUES (?, ?)", [(sku, stock) for sku in skus])
                    began = time.perf_counter()
                    for worker in workers:
                        worker.stdin.write(f"{name} {run}\n".encode())  # type: ignore[union-attr]
                    found["vain"] += sum([int(await worker.stdout.readline()) for worker in workers])  # type: ignore[union-attr]
                    elapsed = time.perf_counter() - began
                    counted = "SELECT count(*) FROM sales WHERE sku = ?"
                    sold = [db.execute(counted, (sku,)).fetchone()[0] for sku in skus]
                    found["rates"].append(sum(min(each, stock) for each in sold) / elapsed)
                    found["oversold"] += sum(max(0, each - stock) for each in sold)
                    found["unsold"] += sum(max(0, stock - each) for each in sold)
        finally:
            for worker in workers:
                worker.stdin.close()  # type: ignore[union-attr]
            await asyncio.gather(*(worker.wait() for worker in workers))
            db.close()
    return {
        name: {"rate": statistics.median(f["rates"]), **{key: f[key] for key in ("oversold", "unsold", "vain")}}
        for name, f in seen.items()
    }


def table(seen: dict[str, dict[str, float]]) -> str:
    """Return it as the page's table."""
    lines = ["| way | sales/s | oversold | left over | paid in vain |", "| --- | --- | --- | --- | --- |"]
    for name, found in seen.items():
        numbers = " | ".join(f"{found[key]:,.0f}" for key in ("rate", "oversold", "unsold", "vain"))
        lines.append(f"| {SHOWN[name]} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    """Run the comparison, or one of its processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--customers", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=5)
    for hidden in ("--work", "--url", "--database"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        asyncio.run(work(given.url, given.database, int(given.work), given.processes, given.customers))
        return
    with RedisServer.start(owned=True) as server:
        seen = asyncio.run(measure(server.url, given.processes, given.customers, given.rounds))
    print(table(seen))


if __name__ == "__main__":
    main()
