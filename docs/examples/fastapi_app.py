"""The smallest web service with a lock: one manager, entered in the lifespan, and `async with` in the handler."""

import asyncio
from contextlib import asynccontextmanager

from fastapi import FastAPI

from aiolock import LockManager

locks = LockManager("redis://localhost:6379/0", acquire_timeout=5.0)  # no I/O yet: fine at import time


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with locks:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order_id}/pay")
async def pay(order_id: str):
    async with locks.lock(f"order:{order_id}") as lease:
        await asyncio.sleep(0.1)  # read, charge, write
        return {"fence": lease.fence}
