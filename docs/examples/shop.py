"""A shop that sells a limited stock: it reads what is left, awaits the payment, and writes one less.

Other requests run between the read and the write, in this process and in others. Without a lock the last item is sold
many times. `async with locks.lock(...)` lets in one buyer of a sku at a time, across all workers.

    SHOP_DATABASE=shop.sqlite uvicorn shop:app      # in docs/examples; needs a Redis on localhost
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Annotated

import uvicorn
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from store import Store

from aiolock import AiolockError, Lease, LockLost, LockManager


class NoLease:
    """The lease of the shop without a lock: it has no fence."""

    fence: int | None = None
    abandoned = False


class NoLocks:
    """The shop without a lock, to show what the lock is for: no buyer waits for another."""

    def lock(self, name: str) -> AbstractAsyncContextManager[NoLease]:
        return nullcontext(NoLease())

    async def __aenter__(self) -> NoLocks:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def locks_from_environment() -> LockManager | NoLocks:
    """Return the manager that the environment asks for. You create it at import time and connect it in the lifespan."""
    if os.environ.get("SHOP_LOCKED") == "0":
        return NoLocks()
    urls = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0").split()
    ttl = float(os.environ.get("SHOP_TTL", "30"))
    patience = 20.0  # a web request must not wait for ever
    if len(urls) > 1:
        return LockManager.cluster(urls, ttl=ttl, acquire_timeout=patience)
    return LockManager(urls[0], ttl=ttl, acquire_timeout=patience)


store = Store(os.environ.get("SHOP_DATABASE", "shop.sqlite"), worker=os.environ.get("SHOP_WORKER", str(os.getpid())))
locks = locks_from_environment()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Connect before the first request; release everything after the last."""
    async with locks:
        yield
    store.close()


app = FastAPI(title="shop", lifespan=lifespan)
Payment = Annotated[float, Query(ge=0, description="seconds the payment takes")]


class Receipt(BaseModel):
    """The answer to a buyer.

    Attributes:
        waited: seconds that the buyer waited for the lock.
        abandoned: the previous holder vanished without releasing the lock: a good moment to check its work.
    """

    left: int
    waited: float
    fence: int | None
    abandoned: bool


@app.post("/buy/{sku}")
async def buy(sku: str, customer: str, payment: Payment = 0.005) -> Receipt:
    """Sell one item. If the lease is lost, the block is cancelled where it stands and writes nothing."""
    asked = time.monotonic()
    async with locks.lock(f"sku:{sku}") as lease:
        receipt = enter(sku, customer, lease, asked)
        await asyncio.sleep(payment)  # the payment provider
        sold = store.sell(sku, receipt.left, customer, receipt.fence)
    return checked(receipt, sold)


@app.post("/buy_in_thread/{sku}")
async def buy_in_thread(sku: str, customer: str, payment: Payment = 0.005) -> Receipt:
    """Sell one item through a blocking SDK. You cannot cancel a thread, but the fence refuses its late write."""
    asked = time.monotonic()
    async with locks.lock(f"sku:{sku}") as lease:
        receipt = enter(sku, customer, lease, asked)

        def pay_and_sell() -> bool:
            time.sleep(payment)
            return store.sell(sku, receipt.left, customer, receipt.fence)

        sold = await asyncio.to_thread(pay_and_sell)
    return checked(receipt, sold)


def enter(sku: str, customer: str, lease: Lease | NoLease, asked: float) -> Receipt:
    """Read the stock at the start of the block, and log who is in it."""
    waited = time.monotonic() - asked
    store.log("entered", sku, customer, lease.fence)
    if lease.abandoned:
        store.log("abandoned", sku, customer, lease.fence)
    left = store.left(sku)
    if left == 0:
        raise HTTPException(409, "sold out")
    return Receipt(left=left - 1, waited=waited, fence=lease.fence, abandoned=lease.abandoned)


def checked(receipt: Receipt, sold: bool) -> Receipt:
    """Return the receipt if the database took the sale."""
    if not sold:
        raise HTTPException(409, "another buyer was faster")
    return receipt


@app.get("/stock/{sku}")
async def stock(sku: str) -> dict[str, int]:
    """Return how many of a sku are left, and how many were sold."""
    return {"left": store.left(sku), "sold": store.sold(sku)}


@app.get("/metrics")
async def metrics() -> dict[str, int]:
    """Count this worker's entries, abandoned locks, refusals by the fence, and lost leases with their reasons."""
    return store.counts()


@app.exception_handler(AiolockError)
async def unavailable(request: Request, error: AiolockError) -> JSONResponse:
    """Answer 503 if the lock was lost or not acquired in time, or Redis is down: the buyer may try again."""
    reason = error.reason.value if isinstance(error, LockLost) else type(error).__name__
    what = "lost" if isinstance(error, LockLost) else "not acquired"
    store.log(what, request.path_params["sku"], request.query_params["customer"], detail=reason)
    return JSONResponse({"detail": str(error), "reason": reason}, 503, {"Retry-After": "1"})


if __name__ == "__main__":  # a worker of the demo: it serves the listening socket that it is given
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    # Keep connections alive longer than the clients do: otherwise a request may meet a connection that is closing.
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_keep_alive=60, timeout_graceful_shutdown=2
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
