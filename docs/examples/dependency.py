"""A lock as a FastAPI dependency; if the lease is lost, the handler is cancelled and the client gets a 503."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from aiolock import AcquireTimeout, Lease, LockLost, LockManager

locks = LockManager("redis://localhost:6379/0", acquire_timeout=5.0)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Keep the manager open while the service runs."""
    async with locks:
        yield


app = FastAPI(lifespan=lifespan)


async def order_lease(order_id: str) -> AsyncIterator[Lease]:
    """Hold the order's lock while the handler runs."""
    async with locks.lock(f"order:{order_id}") as lease:
        yield lease


# scope="function" releases the lock when the handler returns. The default would keep it until the client has read the
# response, and a loss could no longer become a 503. (A StreamingResponse then streams without the lock.)
OrderLease = Annotated[Lease, Depends(order_lease, scope="function")]


@app.post("/orders/{order_id}/ship")
async def ship(order_id: str, lease: OrderLease) -> dict[str, int | str]:
    """Ship an order. Pass the fence to the system you write to, so that it can refuse a late writer."""
    await asyncio.sleep(0.1)  # the work
    return {"shipped": order_id, "fence": lease.fence}


@app.exception_handler(LockLost)
async def lost(_: Request, error: LockLost) -> JSONResponse:
    """The lease was lost and the handler cancelled: you cannot know how far it got."""
    return JSONResponse({"detail": str(error), "reason": error.reason}, 503)


@app.exception_handler(AcquireTimeout)
async def busy(_: Request, error: AcquireTimeout) -> JSONResponse:
    """The lock was held by others the whole time: nothing was done, and the client may try again."""
    return JSONResponse({"detail": str(error)}, 503, {"Retry-After": "1"})
