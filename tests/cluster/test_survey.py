"""The command line on a cluster: names on every master."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from aiolock import LockManager
from tests.cli.conftest import CommandLine
from tests.support.cluster import Cluster


@pytest.mark.takes_long
async def test_names_on_every_master(masters_only: Cluster, tmp_path: Path) -> None:
    """Kept by Survey.serving and Namespace.find."""
    names = sorted(masters_only.names_on(node)[0] for node in masters_only.nodes)
    cli = CommandLine(masters_only.nodes[0].url, tmp_path)
    async with LockManager.cluster([cli.url]) as locks, AsyncExitStack() as held:
        for name in names:
            await held.enter_async_context(locks.lock(name))
        listed = json.loads((await asyncio.to_thread(cli, "ls", "--cluster", "--json")).stdout)
        assert [one["name"] for one in listed] == names
        for name in names:
            told = json.loads((await asyncio.to_thread(cli, "info", "--cluster", "--json", name)).stdout)
            assert [one["state"] for one in told] == ["held"]
        alone = [await asyncio.to_thread(cli, command) for command in ("ls", "top")]
        assert [(one.exit_code, "add --cluster" in one.stderr) for one in alone] == [(2, True)] * 2  # not a part


@pytest.mark.takes_long
async def test_a_slot_that_is_moved(masters_only: Cluster, tmp_path: Path) -> None:
    """Its names cannot be shown, but all others are. Kept by Reader.inspect."""
    node, other = masters_only.nodes[:2]
    moved, stays = masters_only.names_on(node, 2)
    cli = CommandLine(node.url, tmp_path)
    async with LockManager.cluster([cli.url]) as locks, locks.lock(moved), locks.lock(stays):
        slot = str(masters_only.slot(moved))
        node.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", other.id)
        try:
            listed = await asyncio.to_thread(cli, "ls", "--cluster")
            told = await asyncio.to_thread(cli, "info", "--cluster", moved)
        finally:
            node.ask("CLUSTER", "SETSLOT", slot, "STABLE")
    assert (listed.exit_code, "being moved" in listed.stderr) == (0, True)
    assert [line.split()[1] for line in listed.stdout.splitlines()] == ["NAME", stays]
    assert (told.exit_code, "try again" in told.stderr) == (69, True)
