"""`aiolock info`: everything that the server knows of one name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import click

from ..scripts.sight import Sight
from .connection import Connection, connected
from .duration import in_words
from .exits import ExitCode, errors_as_exits, leave
from .output import columns, facts_of, holder_of, json_option, print_json

SHOWN = 20
"""How many holders, and how many in the queue, people see."""


@click.command(short_help="Show who holds a name, and who waits.")
@json_option
@connected
@click.argument("name")
def info(connection: Connection, name: str, as_json: bool) -> None:
    """Show what is known of NAME, whatever is called so: a lock, a semaphore, the last run of a job, …

    It reads only, in two requests.

    Exit code 1 if the server knows nothing of it.
    """
    with errors_as_exits():
        sights = asyncio.run(_look(connection, name))
    if as_json:
        print_json([facts_of(sight, deep=True) for sight in sights])
    for sight in [] if as_json else sights:
        click.echo("\n".join(describe(sight)))
    leave(ExitCode.OK if sights else ExitCode.NO, "" if sights or as_json else f"nothing is known of {name!r}")


async def _look(connection: Connection, name: str) -> list[Sight]:
    async with connection.names() as names:
        return await names.everything(name)


def describe(sight: Sight) -> Iterator[str]:
    """Lines for people."""
    yield f"{sight.kind} {sight.name}: {sight.state}"
    yield columns([(f"  {fact}", text) for fact, text in _facts(sight)])
    if sight.holders and sight.kind != "lock":
        rows = [
            (f"    {holder.manager}", f"fence {holder.fence}", f"{in_words(holder.ttl)} left", f"{holder.permits} held")
            for holder in sight.holders[:SHOWN]
        ]
        yield f"  holders, by their managers{_of(len(sight.holders))}"
        yield columns(rows)
    if sight.queue:
        yield f"  queue{_of(len(sight.queue))}"
        yield columns(
            [
                (
                    f"    {place.position}",
                    place.process or place.manager,
                    f"{place.permits} {place.wants}" if place.wants == "permits" else place.wants,
                    in_words(place.waited),
                    "" if place.alive else "silent: will be passed over",
                )
                for place in sight.queue[:SHOWN]
            ]
        )


def _of(number: int) -> str:
    return f", the first {SHOWN} of {number}" if number > SHOWN else ""


def _facts(sight: Sight) -> Iterator[tuple[str, str]]:
    if sight.process or sight.metadata:
        yield (
            ("run by" if sight.kind == "once" else "held by" if sight.capacity == 1 else "last let in"),
            holder_of(sight),
        )
    if sight.kind == "latch":
        yield "missing", f"{sight.used} of {sight.capacity} counts"
    elif sight.kind == "semaphore":
        yield "permits", f"{sight.used} of {sight.capacity} taken"
    if sight.fence:
        yield ("fence" if sight.taken else "last fence"), str(sight.fence)
    if sight.ttl is not None:
        yield ("kept for" if sight.kind in ("latch", "once") else "ttl left"), in_words(sight.ttl)
    for holder in sight.holders if sight.kind == "lock" else ():
        yield "depth", str(holder.depth) if holder.depth else "granted, not confirmed yet"
    if sight.waiting:
        oldest = "" if sight.oldest_wait is None else f", the first for {in_words(sight.oldest_wait)}"
        yield "waiting", f"{sight.waiting}{oldest}"
