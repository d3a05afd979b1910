"""How often a process that is stopped keeps a whole file of locks locked: `python -m benchmarks.stopping`.

A process locks a name of its own, again and again. It is stopped at random moments, as SIGSTOP, a debugger or a frozen
container do; then another process asks for another name.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
import tempfile

from aiolock import BackendError, LockManager

STOPS = 300
PATIENCE = 0.4
"""Seconds after which a request that has no answer was stopped, too."""
RATES = {"as fast as it can": 0.0, "200 times a second": 200.0}


async def work(url: str, rate: float) -> None:
    """The process that is stopped; `rate` is in acquires a second, 0 for no pause."""
    async with LockManager(url, ttl=30) as locks:
        print("ready", flush=True)
        while True:
            try:
                async with locks.lock("own"):
                    pass
            except BackendError:  # it stood still for longer than it was to wait
                continue
            if rate:
                await asyncio.sleep(1 / rate)


async def stopped(url: str, rate: float) -> int:
    """How many of the stops stopped us."""
    command = [sys.executable, "-m", "benchmarks.stopping", url, str(rate)]
    count = 0
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        async with LockManager(url, ttl=30) as locks:
            for number in range(STOPS):
                await asyncio.sleep(random.uniform(0.01, 0.05))
                process.send_signal(signal.SIGSTOP)
                try:
                    async with asyncio.timeout(PATIENCE), locks.lock(f"n{number}"):
                        pass
                except TimeoutError:
                    count += 1
                finally:
                    process.send_signal(signal.SIGCONT)
    finally:
        process.kill()
        await process.wait()
    return count


def main() -> None:
    """Print a line for each rate."""
    logging.disable(logging.WARNING)
    for how, rate in RATES.items():
        with tempfile.TemporaryDirectory() as folder:
            count = asyncio.run(stopped(f"sqlite:///{folder}/locks.db", rate))
        print(f"a process that locks {how:20}{count} of {STOPS} stops", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(work(sys.argv[1], float(sys.argv[2])))
    else:
        main()
