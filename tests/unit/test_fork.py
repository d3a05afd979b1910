"""A fork duplicates a manager; its owner ids must not be duplicated."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")

ENTERED_BEFORE = """
    import asyncio, os, sys
    from aiolock import ConfigurationError, LockManager
    from aiolock.testing import MemoryBackend

    async def main():
        backend = MemoryBackend()
        async with LockManager(backend) as locks:
            lock = locks.lock("order:42")
            lease = await lock.acquire()
            child = os.fork()
            if not child:
                seen = []
                uses = lock.acquire, lock.try_acquire, lock.info, lock.release, lock.force_release
                for use in (*uses, lease.renew, lease.release):
                    try:
                        await use()
                    except ConfigurationError as error:
                        seen.append("forked child" in str(error) and "'order:42'" in str(error))
                calls = backend.calls
                os._exit(0 if seen == [True] * 7 and calls == ["acquire"] else 1)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0, status
            await lease.release()
            assert backend.calls == ["acquire", "release"]

    asyncio.run(main())
"""

ENTERED_AFTER = """
    import asyncio, os
    from aiolock import LockManager
    from aiolock.testing import MemoryBackend

    locks = LockManager(MemoryBackend())        # at import time, as under gunicorn --preload

    async def owner():
        async with locks, locks.lock("a") as lease:
            return lease._hold.owner

    read, write = os.pipe()
    for _ in range(2):
        child = os.fork()
        if not child:
            os.write(write, (asyncio.run(owner()) + " ").encode())
            os._exit(0)
        os.waitpid(child, 0)
    os.write(write, asyncio.run(owner()).encode())
    owners = os.read(read, 4096).decode().split()
    assert len(owners) == len(set(owners)) == 3, owners
"""


@pytest.mark.parametrize("program", [ENTERED_BEFORE, ENTERED_AFTER], ids=["entered before", "entered after"])
def test_forked_children(program: str) -> None:
    """C1, review a: `Binding.check` compares the pid, `Binding.begin` draws the identity."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
