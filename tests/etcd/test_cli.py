"""The command line on a cluster: it shows what is there, and changes nothing but what you tell it to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aiolock import LockLost, LockManager
from aiolock.backends.etcd.reader import MemberStatus
from aiolock.cli.etcd_examination import examine_member
from tests.cli import stores
from tests.cli.conftest import CommandLine
from tests.support.etcd import Etcd

aiolock = stores.aiolock
test_force_release = stores.test_force_release
test_ls_and_info = stores.test_ls_and_info
test_run = stores.test_run


async def test_a_vanished_holder(server: Etcd, locks: LockManager, aiolock: CommandLine) -> None:
    lease = await locks.lock("a").acquire()
    for pair in server.pairs("aiolock/lock/a/", "aiolock/lock/a0"):
        server.delete(pair["key"])
    told = await asyncio.to_thread(aiolock, "info", "a")
    assert "lock a: abandoned" in told.output
    with pytest.raises(LockLost):
        await lease.release()
    nothing = await asyncio.to_thread(aiolock, "info", "b")
    assert nothing.exit_code == 1


async def test_many_names(server: Etcd, aiolock: CommandLine) -> None:
    """It takes pages. Kept by `EtcdStore.paths`."""
    async with LockManager(server.url) as locks:
        held = [await locks.lock(f"n/{number}").acquire() for number in range(30)]
        from aiolock.backends.etcd.reader import EtcdReader

        reader = EtcdReader(server.url)
        found = [key async for keys in reader.scan("aiolock:*:{n/*}*", most=7) for key in keys]
        await reader.close()
        assert set(found) == {f"aiolock:lock:{{n/{number}}}" for number in range(30)}
        for lease in held:
            await lease.release()


def test_doctor(aiolock: CommandLine) -> None:
    done = aiolock("doctor")  # what it thinks of the version is tested below
    assert "etcd 3." in done.output
    assert "you name one member" in done.output


def test_doctor_without_a_server(tmp_path: Path) -> None:
    done = CommandLine("etcd://127.0.0.1:1", tmp_path)("doctor")
    assert done.exit_code == 1
    assert "start it, or leave it out of the URL" in done.output


@pytest.mark.parametrize(
    ("version", "sound"),
    [("3.4.30", False), ("3.4.31", True), ("3.5.12", False), ("3.5.13", True), ("3.6.0", True), ("3.3.27", False)],
)
def test_versions_whose_leases_may_end_early(version: str, sound: bool) -> None:
    """Kept by `SOUND`."""
    found = [finding for finding in examine_member(MemberStatus("a:1", version, True, ())) if finding.topic == "leases"]
    assert bool(found) is not sound


def test_a_member_that_is_unwell() -> None:
    status = MemberStatus("a:1", "3.6.0", None, ("memberID:1 alarm:NOSPACE ",))
    found = {finding.topic: finding for finding in examine_member(status)}
    assert found["leader"].text == "it knows of no leader"
    assert "disarm" in found["alarm"].advice
