"""The commands that look once, or until a name is free: `aiolock ls`, `aiolock info`, `aiolock wait`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import click

from ..errors import BackendError
from ..scripts.inspections import INSPECTED_KINDS
from ..scripts.view import NameView
from .connection import Connection, connected
from .exits import ExitCode, leave, say
from .namespace import Found, Namespace
from .text import HEADINGS, Duration, columns, facts_of, holder_of, in_words, json_option, plain, print_json, row_of

SHOWN = 20
"""How many holders, and how many in the queue, people see."""
FIRST, LONGEST = 0.05, 1.0
"""Seconds between two looks: at first, and at most."""


@click.command(short_help="List names that are held or waited for.")
@click.option("--all", "everything", is_flag=True, help="Free names, too, that the server still remembers.")
@click.option("--kind", type=click.Choice(INSPECTED_KINDS), help="Only this kind.")
@click.option("--holder", metavar="PROCESS", help="Only what matching processes hold, such as 'checkout@*'.")
@click.option("--redisson", is_flag=True, help="Redisson's locks, whose keys match PATTERN.")
@json_option
@connected
@click.argument("pattern", default="*")
def ls(
    connection: Connection,
    pattern: str,
    everything: bool,
    kind: str | None,
    holder: str | None,
    redisson: bool,
    as_json: bool,
) -> None:
    """List the names that match PATTERN and are held or waited for: aiolock ls 'order:*'

    It reads only. A server scans all its keys for that, 1000 with each request, and is never blocked.

    With --kind once it lists runs that have ended, too. If a node of a cluster cannot be read, it lists what the others
    have, and the code is 69.
    """
    if redisson and (kind is not None or holder is not None):
        raise click.UsageError("--kind and --holder are for aiolock's own names: leave them out, or --redisson")
    found = asyncio.run(_find(connection, pattern, kind, redisson, holder))
    everything = everything or kind == "once"
    shown = [view for view in found.views if everything or view.listed]
    if as_json:
        print_json([facts_of(view) for view in shown])
    elif shown:
        click.echo(columns([HEADINGS, *map(row_of, shown)]))
    else:
        matching = "" if pattern == "*" else f" that matches {pattern!r}"
        matching += "" if holder is None else f" of {holder!r}"
        say(f"no name{matching} is {'known' if everything else 'held or waited for'}")
    for text in found.unseen:
        say(f"the list is not complete: {text}")
    leave(ExitCode.UNREACHABLE if found.failed else ExitCode.OK)


async def _find(connection: Connection, pattern: str, kind: str | None, redisson: bool, holder: str | None) -> Found:
    async with connection.names() as names:
        return await names.find(pattern, kind, redisson, holder)


@click.command(short_help="Show who holds a name, and who waits.")
@click.option("--redisson", is_flag=True, help="NAME is the key of one of Redisson's locks.")
@json_option
@connected
@click.argument("name")
def info(connection: Connection, name: str, redisson: bool, as_json: bool) -> None:
    """Show what is known of NAME, whatever is called so: a lock, a semaphore, the last run of a job, …

    It reads only, in two requests.

    Exit code 1 if the server knows nothing of it.
    """
    views = asyncio.run(_of_redisson(connection, name) if redisson else known(connection, name))
    if as_json:
        print_json([facts_of(view, deep=True) for view in views])
    for view in [] if as_json else views:
        click.echo("\n".join(describe(view)))
    leave(ExitCode.OK if views else ExitCode.NO, "" if views or as_json else f"nothing is known of {name!r}")


async def known(connection: Connection, name: str, kinds: Iterable[str] = INSPECTED_KINDS) -> list[NameView]:
    """See `Namespace.everything`."""
    async with connection.names() as names:
        return await names.everything(name, kinds)


async def _of_redisson(connection: Connection, name: str) -> list[NameView]:
    async with connection.names() as names:
        return await names.of_redisson(name)


def describe(view: NameView) -> Iterator[str]:
    """Lines for people."""
    yield f"{view.kind} {plain(view.name)}: {view.state}"
    if view.refusal:
        yield f"  {plain(view.refusal)}"
    yield columns([(f"  {fact}", text) for fact, text in _facts(view)])
    if view.holders and view.kind != "lock":
        yield f"  holders, by their managers{_of(len(view.holders))}"
        yield columns(
            [
                (
                    f"    {holder.manager}",
                    holder.process or "-",
                    f"fence {holder.fence}",
                    "-" if holder.held_for is None else f"for {in_words(holder.held_for)}",
                    f"{in_words(holder.ttl)} left",
                    f"{holder.permits} held",
                    f"slots {', '.join(map(str, holder.slots))}" if holder.slots else "",
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
                    "-" if place.waited is None else in_words(place.waited),
                    "" if place.alive else "silent: will be passed over",
                )
                for place in view.queue[:SHOWN]
            ]
        )


def _of(number: int) -> str:
    return f", the first {SHOWN} of {number}" if number > SHOWN else ""


def _held(view: NameView) -> str:
    """How the last one that was granted it has it."""
    if view.kind == "once":
        return "run by"
    if view.state == "granted":
        return "granted to"
    if view.state == "kept":
        return "kept by"
    return "held by" if view.capacity == 1 else "last granted to"


def _facts(view: NameView) -> Iterator[tuple[str, str]]:
    if view.process or view.metadata:
        yield _held(view), holder_of(view)
    if view.held_for is not None:
        yield "for", in_words(view.held_for)
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


@click.command(short_help="Wait until a name is free.")
@click.option("--timeout", type=Duration(), help="How long at most.  [default: without limit]")
@click.option("--kind", type=click.Choice(["lock", "rw", "semaphore", "latch"]), default="lock", show_default=True)
@connected
@click.argument("name")
def wait(connection: Connection, name: str, timeout: float | None, kind: str) -> None:
    """Wait until nobody holds NAME; of a latch, until it is open.

    It takes nothing: another one may hold it again at once. It reads only: at first every 50 ms, then once a second. It
    looks at least once, whatever the timeout.

    Exit code 75 if the time is over.
    """
    asyncio.run(_wait(connection, name, timeout, kind))


async def _wait(connection: Connection, name: str, timeout: float | None, kind: str) -> None:
    loop = asyncio.get_running_loop()
    until = None if timeout is None else loop.time() + timeout
    pause = FIRST
    async with connection.names() as names:
        free, last = await _is_free(names, name, kind)  # not to have asked is no answer, however short the time is
        try:
            async with asyncio.timeout_at(until):
                while not free:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST)
                    free, last = await _is_free(names, name, kind)
        except TimeoutError:
            leave(ExitCode.BUSY, f"{name!r} is not free after {timeout:g} s{last}")


def check_readable(view: NameView) -> None:
    """Raise BackendError if it has keys of another version."""
    if view.refusal:
        raise BackendError(view.name, view.refusal)


async def _is_free(names: Namespace, name: str, kind: str) -> tuple[bool, str]:
    """Whether it is free, and otherwise who has it, as the end of a sentence."""
    views = await names.everything(name, [kind])
    for view in views:
        check_readable(view)
    taken = [view for view in views if view.taken]
    if not taken and (views or kind != "latch"):
        return True, ""
    return False, f": held by {holder_of(taken[0])}" if taken and taken[0].process else ""
