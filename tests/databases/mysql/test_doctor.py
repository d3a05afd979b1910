"""What doctor says of a MariaDB or MySQL."""

from __future__ import annotations

import pytest

from aiolock.cli.examination import Level
from aiolock.cli.mysql_examination import examine_mysql

SAFE = {"version": "11.4.2-MariaDB", "innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF"}


@pytest.mark.parametrize(
    ("variables", "topic", "level"),
    [
        ({}, "server", Level.OK),
        ({}, "crash", Level.OK),
        ({"innodb_flush_log_at_trx_commit": "0"}, "crash", Level.PROBLEM),
        ({"log_bin": "ON"}, "failover", Level.ADVICE),
    ],
)
def test_what_doctor_says(variables: dict[str, str], topic: str, level: Level) -> None:
    assert [found.level for found in examine_mysql(SAFE | variables) if found.topic == topic] == [level]


@pytest.mark.parametrize("name", ["master", "source"])
def test_what_doctor_does_not_say(name: str) -> None:
    """MariaDB and MySQL call it differently."""
    variables = SAFE | {"log_bin": "ON", f"rpl_semi_sync_{name}_enabled": "ON"}
    assert not [found for found in examine_mysql(variables) if found.level != Level.OK]
