"""What doctor says of a PostgreSQL."""

from __future__ import annotations

import pytest

from aiolock.cli.examination import Level
from aiolock.cli.postgres_examination import examine_postgres

SOUND: dict[str, object] = {
    "version": "18.4",
    "commit": "on",
    "fsync": "on",
    "standbys": "",
    "replicas": 0,
    "granted": True,
    "standby": False,
    "pages": "on",
    "left": 90,
    "in_place": 0.99,
    "old": 3,
    "isolation": "read committed",
    "most": 6400,
    "taken": 5000,
}
"""What a database answers in which all is well."""


@pytest.mark.parametrize(
    ("other", "topic", "level"),
    [
        ({}, "crash", Level.OK),
        ({"commit": "off"}, "crash", Level.PROBLEM),
        ({"fsync": "off"}, "crash", Level.PROBLEM),
        ({"pages": "off"}, "crash", Level.PROBLEM),
        ({"replicas": 1}, "failover", Level.ADVICE),
        ({"commit": "local", "standbys": "*", "replicas": 1}, "failover", Level.ADVICE),
        ({"granted": False}, "rights", Level.PROBLEM),
        ({"standby": True}, "topology", Level.PROBLEM),
        ({"left": 19}, "sessions", Level.ADVICE),
        ({"in_place": 0.5}, "table", Level.ADVICE),
        ({"old": 1_000_001}, "table", Level.ADVICE),
        ({}, "room", Level.OK),
        ({"taken": 5401}, "room", Level.ADVICE),
        ({"isolation": "serializable"}, "isolation", Level.PROBLEM),
    ],
)
def test_what_doctor_says(other: dict[str, object], topic: str, level: Level) -> None:
    assert level in [found.level for found in examine_postgres([*(SOUND | other).values()]) if found.topic == topic]


def test_what_doctor_does_not_say() -> None:
    """Kept by examine_postgres: `standbys`, and what is unknown."""
    for other in ({"standbys": "*", "replicas": 1}, {"in_place": None, "old": None}, {"in_place": 1.0, "old": 7}):
        assert {found.level for found in examine_postgres([*(SOUND | other).values()])} == {Level.OK}
