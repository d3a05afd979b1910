"""What doctor says of a MariaDB or MySQL."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from aiolock.backends.mysql.reader import DatabaseReader
from aiolock.cli.examination import Level
from aiolock.cli.mysql_examination import OWNER, examine_mysql

from .database import MySQLDatabase

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
    found = examine_mysql(SAFE | variables, "root@%", wakes=True)
    assert [one.level for one in found if one.topic == topic] == [level]


@pytest.mark.parametrize("grant", ["", "CONNECTION ADMIN"])
async def test_whom_the_procedures_may_wake(database: MySQLDatabase, grant: str) -> None:
    """They are another user's, who needs a right for that; we may not be told of it. Kept by OWNER."""
    owner = database.user_with("ALL PRIVILEGES")
    database.equip(owner)
    name = urlsplit(owner).username
    if grant:
        right = grant.replace(" ", "_") if database.run("SELECT VERSION() LIKE '%MariaDB%'") == [(0,)] else grant
        database.run(f"GRANT {right} ON *.* TO {name}@'%'")
    for looker, known in ((DatabaseReader(owner), True), (DatabaseReader(database.url), bool(grant))):
        assert await looker.fetch(OWNER) == [[f"{name}@%", int(known)]]
        await looker.close()
    assert [found.level for found in examine_mysql(SAFE, name or "", wakes=False)][-1] == Level.ADVICE


@pytest.mark.parametrize("name", ["master", "source"])
def test_what_doctor_does_not_say(name: str) -> None:
    """MariaDB and MySQL call it differently."""
    variables = SAFE | {"log_bin": "ON", f"rpl_semi_sync_{name}_enabled": "ON"}
    assert not [found for found in examine_mysql(variables, "root@%", wakes=True) if found.level != Level.OK]
