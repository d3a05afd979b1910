"""The registry of libraries, and one that is not available."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from aiolock.testing.server import RedisServer
from benchmarks.peers import PEERS, Peer, environment
from benchmarks.peers.environment import Unavailable
from benchmarks.peers.trial import Trial
from benchmarks.rows import ROWS
from benchmarks.stage import Stage

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("spec", [*(peer.adapter for peer in PEERS), *(row.call for row in ROWS)])
def test_every_adapter_that_is_named_exists(spec: str) -> None:
    """Without importing it: its dependencies may not be installed here."""
    module, _, name = spec.partition(":")
    source = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    kinds = (ast.ClassDef, ast.AsyncFunctionDef)
    assert name in {node.name for node in source.body if isinstance(node, kinds)}


def test_a_peer_that_cannot_be_installed_is_reported(redis_server: RedisServer, monkeypatch, tmp_path: Path) -> None:
    """As on a machine without a network."""

    def refuse(words: list[str]) -> None:
        raise Unavailable("could not be installed: no network")

    monkeypatch.setattr(environment, "_run", refuse)
    monkeypatch.setattr(environment, "CACHE", tmp_path)
    peer = Peer("absentee", "benchmarks.peers.coredis_lock:Lock", ("absentee",), ("absentee",))
    trial = Trial(peer, Stage(redis_server.url, None, quick=True))
    assert not trial.run()
    assert trial.result == {"name": "absentee", "failed": {}, "absent": "could not be installed: no network"}


def test_a_peer_that_cannot_be_imported_is_reported(redis_server: RedisServer) -> None:
    peer = Peer("absentee", "benchmarks.peers.absentee:Lock", (), ())
    trial = Trial(peer, Stage(redis_server.url, None, quick=True))
    assert not trial.run()
    assert "No module named 'benchmarks.peers.absentee'" in trial.result["absent"]


def test_files_are_small() -> None:
    long = {path.name for path in (ROOT / "benchmarks").rglob("*.py") if len(path.read_text().splitlines()) > 400}
    assert long == set()
