"""The smallest web service with a lock: one manager, opened in the lifespan, and `async with` in the handler."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from aiolock import LockManager

locks = LockManager("redis://localhost:6379/0", acquire_timeout=5.0)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with locks:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order_id}/pay")
async def pay(order_id: str) -> dict[str, int]:
    async with locks.lock(f"order:{order_id}") as lease:  # one at a time, across all workers and machines
        await asyncio.sleep(0.1)  # read, charge, write: cancelled before anybody else can enter
        return {"fence": lease.fence}
