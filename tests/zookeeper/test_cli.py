"""What the command line finds out about an ensemble."""

from __future__ import annotations

from pathlib import Path

from aiolock.backends.zookeeper.reader import ServerStatus
from aiolock.cli.examination import Level
from aiolock.cli.zookeeper_examination import examine_server, examine_servers
from aiolock.errors import BackendError
from tests.cli.conftest import CommandLine
from tests.support.zookeeper import ZooKeeper


def test_doctor(server: ZooKeeper, tmp_path: Path) -> None:
    done = CommandLine(server.url, tmp_path)("doctor")
    assert done.exit_code == 0, done.output
    assert "ZooKeeper 3.9.3" in done.output
    assert "a lock lasts for 115 s at most" in done.output
    assert "run three servers" in done.output


def test_doctor_without_a_server(tmp_path: Path) -> None:
    done = CommandLine("zookeeper://127.0.0.1:1", tmp_path)("doctor")
    assert done.exit_code == 1
    assert "start it, or leave it out of the URL" in done.output


def test_what_is_found() -> None:
    """Kept by each line of `examine_server`."""

    def problems(version: str, longest: float) -> list[str]:
        status = ServerStatus("a:1", version, "leader", longest)
        return [found.topic for found in examine_server(status) if found.level is Level.PROBLEM]

    assert problems("3.9.3", 35.0) == []
    assert problems("", 35.0) == []
    assert problems("3.5.10", 35.0) == ["version"]
    assert problems("3.9.3", 15.0) == ["ttl"]
    assert [found.topic for found in examine_server(BackendError("", "away"))] == ["server"]
    (one,) = examine_servers([ServerStatus("a:1", "3.9.3", "leader", 35.0)])
    assert "name all servers" in one.advice
    assert list(examine_servers([ServerStatus("a:1", "3.9.3", "leader", 35.0), BackendError("", "away")])) == []
