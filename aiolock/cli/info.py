"""`aiolock info`: everything that the server knows of one name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import click

from ..scripts.view import NameView
from .connection import Connection, connected
from .duration import in_words
from .exits import ExitCode, leave
from .output import columns, facts_of, holder_of, json_option, print_json
from .plain import plain

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
    views = asyncio.run(_look(connection, name))
    if as_json:
        print_json([facts_of(view, deep=True) for view in views])
    for view in [] if as_json else views:
        click.echo("\n".join(describe(view)))
    leave(ExitCode.OK if views else ExitCode.NO, "" if views or as_json else f"nothing is known of {name!r}")


async def _look(connection: Connection, name: str) -> list[NameView]:
    async with connection.names() as names:
        return await names.everything(name)


def describe(view: NameView) -> Iterator[str]:
    """Lines for people."""
    yield f"{view.kind} {plain(view.name)}: {view.state}"
    yield columns([(f"  {fact}", text) for fact, text in _facts(view)])
    if view.holders and view.kind != "lock":
        yield f"  holders, by their managers{_of(len(view.holders))}"
        yield columns(
            [
                (
                    f"    {holder.manager}",
                    holder.process or "-",
                    f"fence {holder.fence}",
                    f"{in_words(holder.ttl)} left",
                    f"{holder.permits} held",
                )
                for holder in view.holders[:SHOWN]
            ]
        )
    if view.queue:
        yield f"  queue, by managers{_of(len(view.queue))}"
        yield columns(
            [
                (
                    f"    {place.position}",
                    place.manager,
                    place.process or "-",
                    f"{place.permits} {place.wants}" if place.wants == "permits" else place.wants,
                    in_words(place.waited),
                    "" if place.alive else "silent: will be passed over",
                )
                for place in view.queue[:SHOWN]
            ]
        )


def _of(number: int) -> str:
    return f", the first {SHOWN} of {number}" if number > SHOWN else ""


def _let_in(view: NameView) -> str:
    """How the one that was let in last has it."""
    if view.kind == "once":
        return "run by"
    if view.state == "granted":
        return "granted to"
    return "held by" if view.capacity == 1 else "last let in"


def _facts(view: NameView) -> Iterator[tuple[str, str]]:
    if view.process or view.metadata:
        yield _let_in(view), holder_of(view)
    if view.kind == "latch":
        yield "missing", f"{view.used} of {view.capacity} counts"
    elif view.kind == "semaphore":
        yield "permits", f"{view.used} of {view.capacity} taken"
    if view.fence:
        yield ("fence" if view.taken else "last fence"), str(view.fence)
    if view.ttl is not None:
        yield ("kept for" if view.kind in ("latch", "once") else "ttl left"), in_words(view.ttl)
    if view.kind == "lock" and view.state == "held":
        yield from (("depth", str(holder.depth)) for holder in view.holders)
    if view.waiting:
        oldest = "" if view.oldest_wait is None else f", the first for {in_words(view.oldest_wait)}"
        yield "waiting", f"{view.waiting}{oldest}"
