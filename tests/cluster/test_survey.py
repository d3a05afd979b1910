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
