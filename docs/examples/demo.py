"""Watch the lock protect a real web service: real processes, a real server, real accidents.

    python docs/examples/demo.py [--cluster | --etcd | --postgres | --sqlite]

Plays five scenes, or with `--cluster` one on a Redis Cluster, with `--etcd` five on three members of etcd, with
`--postgres` four with locks in a database, with `--sqlite` four without a server, then prints a table of what happened.
Exits with 1 if a promise was broken, with 2 if there is no etcd, with 130 if interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable

import scenes
from etcd import NoEtcd
from stage import Stage


async def on_one_server(stage: Stage) -> None:
    """Play five scenes."""
    stage.report.step(f"the server runs on {stage.server.url}; starting two workers that use no lock")
    await without_and_with(stage, scenes.with_lock, scenes.killed, scenes.frozen, scenes.restarted)


async def in_a_file(stage: Stage) -> None:
    """Play four scenes."""
    stage.report.step("no server runs; starting two workers that use no lock")
    await without_and_with(stage, scenes.with_lock_elsewhere, scenes.killed, scenes.frozen)


async def in_a_database(stage: Stage) -> None:
    """Play four scenes."""
    stage.report.step("PostgreSQL runs, and no Redis; starting two workers that use no lock")
    await without_and_with(stage, scenes.with_lock_elsewhere, scenes.killed, scenes.frozen)


async def in_etcd(stage: Stage) -> None:
    """Play five scenes."""
    stage.report.step("three members of etcd run, and no Redis; starting two workers that use no lock")
    elsewhere = scenes.with_lock_elsewhere
    await without_and_with(stage, elsewhere, scenes.killed, scenes.frozen, scenes.leader_killed)


async def without_and_with(stage: Stage, *played: Callable[[Stage], Awaitable[None]]) -> None:
    """Play what happens without locks, and then these scenes with them."""
    await stage.hire("unlocked-1", "unlocked-2", locked=False)
    await scenes.without_lock(stage)
    await stage.dismiss(*stage.workers)
    await stage.hire("worker-1", "worker-2")
    for scene in played:
        await scene(stage)


async def on_cluster(stage: Stage) -> None:
    """Play one scene."""
    stage.report.step("three masters run, and a replica of each; starting two workers")
    await stage.hire("worker-1", "worker-2")
    await scenes.master_killed(stage)


PLAYS = {
    "": on_one_server,
    "cluster": on_cluster,
    "etcd": in_etcd,
    "postgres": in_a_database,
    "sqlite": in_a_file,
}
"""By where the locks are."""


async def play(where: str) -> int:
    """Play the scenes and return the exit code."""
    task = asyncio.current_task()
    assert task is not None
    for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(end, task.cancel)
    started = time.monotonic()
    async with Stage.set_up(where) as stage:
        report = stage.report
        try:
            await PLAYS[where](stage)
        except Exception as error:
            report.promised("the scene plays to its end", repr(error), False)
        broken = report.broken()
        if broken:
            print(f"\nWhat the workers printed:\n{stage.output()}")
        print(f"\n{report.table()}")
    for promise in broken:
        print(f"BROKEN  {promise}")
    print(f"{'Promises were broken' if broken else 'Every promise was kept'}; {time.monotonic() - started:.0f} s.")
    return 1 if broken else 0


def main() -> int:
    """Run the demo from the command line."""
    parser = argparse.ArgumentParser(description="Watch the lock protect a real web service.")
    where = parser.add_mutually_exclusive_group()
    keep, at = {"action": "store_const", "dest": "where", "default": ""}, where.add_argument
    at("--cluster", const="cluster", help="on a Redis Cluster, whose master is killed", **keep)
    at("--etcd", const="etcd", help="in etcd, whose leader is killed; needs the program etcd on the PATH", **keep)
    at("--postgres", const="postgres", help="in a PostgreSQL database", **keep)
    at("--sqlite", const="sqlite", help="in a file, without a server", **keep)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without ✓ can show the rest
    try:
        return asyncio.run(play(parser.parse_args().where))
    except NoEtcd as missing:
        print(missing, file=sys.stderr)
        return 2
    except asyncio.CancelledError:
        print("\nInterrupted. Every process was stopped, and nothing is left behind.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
