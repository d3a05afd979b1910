"""The command line behind Sentinels."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from aiolock import LockManager
from tests.cli.conftest import CommandLine
from tests.support.sentinels import SentinelSet


@pytest.mark.takes_long
async def test_the_master_is_asked(sentinels: SentinelSet, tmp_path: Path) -> None:
    """Kept by Survey."""
    urls = [sentinel.url for sentinel in sentinels.sentinels]
    words = [word for url in urls for word in ("--sentinel", url)]
    cli = CommandLine("redis://localhost/0", tmp_path)
    async with LockManager.sentinel(urls, service=sentinels.service) as locks:
        await locks.lock("a").acquire()
        listed = await asyncio.to_thread(cli, "ls", *words, "--service", sentinels.service, "--json")
        assert [one["name"] for one in json.loads(listed.stdout)] == ["a"]
        again = await asyncio.to_thread(cli, "force-release", "--yes", *words, "--service", sentinels.service, "a")
        assert again.exit_code == 0
        assert not await locks.lock("a").is_locked()


@pytest.mark.takes_long
def test_a_sentinel_is_recognised(sentinels: SentinelSet, tmp_path: Path) -> None:
    """Whoever gives its URL is told what to write instead. Kept by Reader._judge."""
    cli = CommandLine(sentinels.sentinels[0].url, tmp_path)
    for words in (("ls",), ("info", "a"), ("wait", "a"), ("force-release", "--yes", "a"), ("run", "a", "--", "true")):
        told = cli(*words)
        assert (told.exit_code, "add --sentinel and --service" in told.stderr) == (2, True), told.output
    examined = cli("doctor")
    assert examined.exit_code == 1
    assert "this is a Sentinel" in examined.stdout
    assert "TIME" not in examined.stdout
