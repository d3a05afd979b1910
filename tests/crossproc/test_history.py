"""Several processes and faults, judged by the models of histories: no two are inside, fences rise, and so on."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time

from aiolock.testing.server import RedisServer
from tests.support import locks, redis_cli
from tests.support.proxy import FaultProxy

from .conftest import Crew

PROCESSES, TASKS, SECONDS, TTL = 4, 5, 4.0, 1.0


async def test_four_processes_on_a_bad_line(crew: Crew, own_server: RedisServer) -> None:
    """Connections die, bytes are held and released late, scripts are forgotten, clients killed and paused: nothing
    overlaps.

    Two of the processes go through a proxy.
    """
    dice = random.Random()
    async with FaultProxy(own_server.host, own_server.port) as proxy:
        workers = [
            crew.start("history", TASKS, TTL, "lock", url=proxy.url if number % 2 else own_server.url)
            for number in range(PROCESSES)
        ]
        await crew.until(lambda: len(crew.events("ready")) == PROCESSES)
        with redis_cli.client(own_server.url) as link:

            def kill() -> None:
                own = str(link.client_id())
                victims = [client["id"] for client in link.client_list() if client["id"] != own]
                for victim in dice.sample(victims, min(2, len(victims))):
                    link.client_kill_filter(_id=victim)

            faults = [
                proxy.reset,
                lambda: proxy.reset(upstream=False),
                lambda: proxy.hold("requests", 1),
                lambda: proxy.hold("replies", 1),
                lambda: proxy.cut(times=3),
                lambda: proxy.drop("replies"),
                lambda: proxy.drop("requests"),
                lambda: proxy.delay("replies", 0.01),
                link.script_flush,
                lambda: link.client_pause(dice.randrange(10, 100)),
                kill,
            ]
            crew.journal.note("fault", number=1, what="a bad line")
            began = time.monotonic()
            while time.monotonic() - began < SECONDS or len(crew.events("granted")) < 150:
                assert time.monotonic() - began < 60.0, crew.errors()
                dice.choice(faults)()
                await asyncio.sleep(dice.uniform(0, 0.15))
                proxy.heal()
                await asyncio.sleep(dice.uniform(0, 0.1))
            proxy.reset()  # a connection that lost a frame is silent for good: its process would not get rid of a hold
            crew.journal.note("mended", number=1)
            healed = time.monotonic()
            await crew.until(
                lambda: {e["pid"] for e in crew.events("granted") if e["at"] > healed} == {w.pid for w in workers}
            )
            (crew.folder / "enough").touch()
            await crew.done(*workers)
            assert crew.judge().counts()["grants"] > 100
            assert locks.nothing_held(link)


async def test_processes_that_are_stopped_and_killed(crew: Crew) -> None:
    """SIGSTOP for longer than the ttl, SIGKILL: only stopped processes can overlap, and the resource refuses their
    writes.
    """
    workers = [crew.start("history", 2, TTL, "lock", "fair") for _ in range(PROCESSES)]
    await crew.until(lambda: len(crew.events("ready")) == PROCESSES)
    stopped, killed = workers[0], workers[1]
    crew.stop(stopped)
    await asyncio.sleep(0.3)
    crew.kill(killed)
    await asyncio.sleep(TTL * 1.3)
    resumed = time.monotonic()
    os.kill(stopped.pid, signal.SIGCONT)
    await crew.until(lambda: any(e["pid"] == stopped.pid and e["at"] > resumed for e in crew.events("granted")))  # type: ignore[operator]
    await crew.until(lambda: len(crew.events("granted")) > 50)
    (crew.folder / "enough").touch()
    await crew.done(stopped, *workers[2:])
    seen = crew.judge()
    assert seen.counts()["grants"] > 50
    assert any(stall.seconds > TTL for stall in seen.stalls[stopped.pid])
