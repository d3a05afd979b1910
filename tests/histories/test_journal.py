"""The journal outlives its writer, and a line that is not complete is not read."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from .history import History
from .journal import Events, Journal


def test_what_was_noted_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    events = Events(path)
    assert events.so_far() == []
    journal = Journal(path)
    operation = journal.begin("permits", "s", weight=2, permits=3)
    operation.note("granted", fence=5)
    with path.open("a") as file:
        file.write('{"event": "torn')
    attempt = History(events.so_far()).attempts[0]
    assert (attempt.names, attempt.weight, attempt.fence) == (("s",), 2, 5)
    assert attempt.left == attempt.granted
    with path.open("a") as file:
        file.write('", "pid": 1, "at": 0}\n')
    assert len(events.so_far()) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_it_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    child = os.fork()
    if child == 0:
        Journal(path).note("ready")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert [event["pid"] for event in Events(path).so_far()] == [child]
