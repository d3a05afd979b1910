"""What the command line finds out about a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolock.backends.etcd.reader import MemberStatus
from aiolock.cli.etcd_examination import examine_member
from tests.cli.conftest import CommandLine
from tests.support.etcd import Etcd


def test_doctor(server: Etcd, tmp_path: Path) -> None:
    done = CommandLine(server.url, tmp_path)("doctor")  # what it thinks of the version is tested below
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
    assert found["leader"].text == "it knows no leader"
    assert "disarm" in found["alarm"].advice
