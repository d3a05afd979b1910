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

LOOKED_AT = """
    import asyncio, gc, os, sys, warnings
    from aiolock import ConfigurationError, LockManager
    from aiolock.recipes import leader
    from aiolock.testing import MemoryBackend

    LOOKS = {
        "lost": lambda lease: lease.lost, "reason": lambda lease: lease.reason, "wanted": lambda lease: lease.wanted,
        "released": lambda lease: lease.released, "depth": lambda lease: lease.depth,
        "permits": lambda lease: lease.permits, "remaining": lambda lease: lease.remaining(),
        "ensure": lambda lease: lease.ensure(5), "shielded": lambda lease: lease.shielded(None),
    }

    def of_an_election(feed):
        vouched = [] if "parent" in repr(feed) else [repr(feed)]
        for look in ("leading", "contending"):
            try:
                vouched.append((look, getattr(feed, look)))
            except ConfigurationError as error:
                assert "forked child" in str(error)
        return vouched

    def foreign(error):
        return type(error) is ConfigurationError and "forked child" in str(error) and "'order:42'" in str(error)

    def look(lease, box):
        vouched = []
        for name, use in LOOKS.items():
            try:
                vouched.append((name, use(lease)))
            except ConfigurationError as error:
                if not foreign(error):
                    vouched.append((name, error))
        if lease.fence <= 0 or lease.name != "order:42" or "parent" not in repr(lease):
            vouched.append(repr(lease))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            del lease
            box.clear()
            gc.collect()
        return vouched + [str(each.message) for each in warned]

    async def leave(block):
        error = await asyncio.gather(block.__aexit__(None, None, None), return_exceptions=True)
        return [] if foreign(error[0]) else [("left", error)]

    async def main():
        backend = MemoryBackend()
        async with LockManager(backend) as locks:
            lock = locks.lock("order:42")
            feed = leader(locks.lock("feed"))
            await feed.__aenter__()
            backend.calls.clear()
            box = [await lock.acquire()]
            await lock.__aenter__()
            attempt = lock.acquire()
            await attempt.__aenter__()
            child = os.fork()
            if not child:
                vouched = [] if foreign_block(lock) else ["left without a loop"]
                vouched += asyncio.Runner().run(leave(attempt)) + look(box[0], box)
                vouched += of_an_election(feed)
                try:
                    locks.close().send(None)  # no loop runs here
                except StopIteration:  # harmless, as its docstring says
                    pass
                print(vouched, file=sys.stderr)
                sys.stderr.flush()
                os._exit(1 if vouched or backend.calls != ["acquire", "nest", "nest"] else 0)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0, status
            box[0].ensure(5)
            assert not box[0].lost and box[0].depth == 3
            await attempt.__aexit__(None, None, None)
            await lock.__aexit__(None, None, None)
            await box[0].release()
            assert feed.leading and feed.contending
            await feed.__aexit__(None, None, None)

    def foreign_block(block):
        try:
            block.__aexit__(None, None, None).send(None)
        except ConfigurationError as error:
            return foreign(error)

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


@pytest.mark.parametrize(
    "program", [ENTERED_BEFORE, LOOKED_AT, ENTERED_AFTER], ids=["used", "looked at", "entered after"]
)
def test_forked_children(program: str) -> None:
    """C1, review a: `Binding.check` compares the process, `Binding.begin` draws the identity.

    What its parent has, a child does not vouch for: `Lease._own`, `Lifecycle.close`, `Election._check_process`.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
