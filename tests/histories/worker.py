"""A process of a round: `python -m tests.histories.worker <what it is given, as JSON>`.

It does what lines on its standard input say, each a JSON list: `["block", seconds]`, `["cancel", count]`,
`["linger", seconds]`, `["enough"]`.
When that ends, whoever started it is gone, and it ends, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import random
import signal
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import aiolock
from aiolock import LockManager, Poll

from .journal import Journal
from .network import RoutedLoop
from .resource import Resource
from .work import Work

BROKEN = "AIOLOCK_BROKEN"
"""Names the mutation with which a worker begins."""
_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG: a stopped process would not see that its input ends."""


def manager(place: dict[str, Any], options: dict[str, Any]) -> LockManager:
    """Return a manager of the `urls` of a cluster or a `quorum`, of the `sentinels` of a `service`, or of one `url`."""
    if options.pop("poll", False):
        options["waiting"] = Poll()
    if "urls" in place:
        return LockManager.cluster(place["urls"], **options)
    if "quorum" in place:
        return LockManager.quorum(place["quorum"], **options)
    if "sentinels" in place:
        addresses = [(host, port) for host, port in place["sentinels"]]
        return LockManager.sentinel(addresses, service=place["service"], **options)
    return LockManager(place["url"], **options)


class Worker:
    """One process's work.

    Args:
        given: `place`, `options` (of the manager), `uses`, `seed`, `number` and `workers`.
        folder: of the journal and the resource.
    """

    def __init__(self, given: dict[str, Any], folder: Path) -> None:
        self._given = given
        self._journal = Journal(folder / "journal")
        self._resource = Resource(str(folder / "resource"))
        self._input = b""

    async def run(self) -> None:
        given = self._given
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unhandled)
        # As a service that starts in the middle of a failover does: it goes on trying.
        async with contextlib.aclosing(await manager(given["place"], given["options"]).open(strict=False)) as locks:
            dice = random.Random(f"{given['seed']}:{given['number']}")
            self._uses = Work(locks, self._journal, self._resource, dice, given["number"], given["workers"])
            if "accounts" in given["place"]:
                from .accounts import Accounts  # only there: it brings drivers

                self._uses.accounts = Accounts(*given["place"]["accounts"])
            loop.add_reader(0, self._told)
            self._journal.note("ready")
            watching = asyncio.create_task(self._journal.watch())
            await self._uses.run(given["uses"])
            watching.cancel()
        loop.remove_reader(0)
        self._resource.close()

    def _told(self) -> None:
        read = os.read(0, 4096)
        if not read:
            os._exit(3)
        *lines, self._input = (self._input + read).split(b"\n")
        for line in lines:
            what, *more = json.loads(line)
            if what == "block":
                time.sleep(*more)
            elif what == "cancel":
                self._uses.cancel(*more)
            elif what == "linger":
                self._uses.linger(*more)
            else:
                self._uses.stop()

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        lines = traceback.format_exception(error) if error is not None else []
        about = {key: repr(value) for key, value in context.items() if key not in ("message", "exception")}
        self._journal.note("failed", text="\n".join([f"{context['message']} {about}", *lines]))


LATER = (
    "aiolock.backends.factory",
    "aiolock.backends.sqlite",
    "aiolock.backends.transactional",
    "aiolock.core.waiting.gathering",
    "aiolock.core.waiting.stepwise",
    "concurrent.futures.thread",
)
"""What is imported when it is used."""


def _become(user: int) -> None:
    """Another user, who may read no more of this program than he has by now."""
    for module in LATER:
        import_module(module)
    for name in aiolock.__all__:
        getattr(aiolock, name)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _die_with_parent()  # which the change of user has ended


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started it
    _die_with_parent()
    logging.getLogger("aiolock").setLevel(logging.CRITICAL)  # what is broken on purpose; all else it says is a find
    # asyncio says so if others write to a connection that has just died, before they could know.
    logging.getLogger("asyncio").addFilter(lambda record: "socket.send() raised" not in record.getMessage())
    if name := os.environ.get(BROKEN):
        from .mutations import CASES  # only then: it brings pytest

        CASES[name].break_it()
    given = json.loads(sys.argv[1])
    if "second_user" in given["place"] and given["number"] % 2:
        _become(given["place"]["second_user"])
    routes = {int(port): proxy for port, proxy in given["routes"].items()}
    with asyncio.Runner(loop_factory=lambda: RoutedLoop(routes)) as runner:
        runner.run(Worker(given, Path(given["folder"])).run())


if __name__ == "__main__":
    main()
