"""Runs the tests that meet a server, on each version of it that is at hand: `make test-servers`.

`AIOLOCK_TEST_SERVERS` names folders, separated as in PATH; each has a `redis-server`, `valkey-server`, `redict-server`
or `keydb-server`. With `AIOLOCK_TEST_DOCKER=1` Docker runs the images named here instead. With `--topologies` each
version is a cluster and a set of Sentinels, as in `make test-topologies`; containers cannot be that. A folder with a
`postgres` is that version of PostgreSQL; one with a `mysqld` or `mariadbd`, that of MySQL or MariaDB.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from aiolock.testing.server import DOCKER_VARIABLE, IMAGE_VARIABLE, URL_VARIABLE, RedisServer
from tests.support import mysql, postgres, redis_cli, runs
from tests.support.runs import ROOT

SERVERS_VARIABLE = "AIOLOCK_TEST_SERVERS"
IMAGES = [
    *(f"redis:{version}" for version in ("6.0", "6.2", "7.0", "7.2", "7.4", "8.0", "8.2", "8")),
    *(f"valkey/valkey:{version}" for version in ("7.2", "8.0", "8.1", "9")),
]
PAGE = ROOT / "benchmarks" / "results" / "versions.md"
FOLDERS = ["contract", "scripts", "transport"]
OF_POSTGRES = [
    *("tests/databases", "tests/transactional", "tests/recipes/test_fenced_postgres.py"),
    *("--ignore=tests/databases/mysql", "-m", "not mysql"),
]
OF_MYSQL = [
    *("tests/databases", "tests/contract", "tests/recipes/test_fenced_mysql.py", "--topologies", "-n", "3"),
    *("-k", "mysql and not mariadb and not snapshot"),  # both are the same then; and what only MariaDB has
]
TOPOLOGIES = ["contract", "cluster", "sentinel", "topologies"]
WORKERS = ["-n", "3"]
"""Fewer than otherwise: each test of topologies has a dozen processes."""
HEADER = f"| server | version | tests | left out |\n|{' --- |' * 4}\n"


class Row(NamedTuple):
    """One server, and the environment in which the tests start it.

    Attributes:
        name: what it is called on the command line.
        environment: see above.
        product: what it is, and its version, if it is one of SQL.
        tests: what runs on it then.
    """

    name: str
    environment: Mapping[str, str]
    product: tuple[str, str] | None = None
    tests: Sequence[str] = ()


def rows() -> list[Row]:
    """The servers at hand, in the order in which they were named."""
    folders = [folder for folder in os.environ.get(SERVERS_VARIABLE, "").split(os.pathsep) if folder]
    if folders:
        return [_of_sql(folder) or Row(Path(folder).name, _first(folder)) for folder in folders]
    if os.environ.get(DOCKER_VARIABLE) == "1":
        return [Row(image, {IMAGE_VARIABLE: image}) for image in IMAGES]
    sys.exit(f"name folders with servers in {SERVERS_VARIABLE}, or set {DOCKER_VARIABLE}=1 to use Docker's images")


def _first(folder: str) -> Mapping[str, str]:
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", DOCKER_VARIABLE: ""}


def _of_sql(folder: str) -> Row | None:
    if Path(folder, "postgres").exists():
        number = postgres.version_in(folder)
        return Row(f"postgres-{number}", {postgres.FOLDER: folder}, ("PostgreSQL", number), OF_POSTGRES)
    for product in (mysql.MARIADB, mysql.MYSQL):
        if (path := Path(folder, product.program)).exists():
            name, number = mysql.version_of(path)
            return Row(f"{name.lower()}-{number}", {mysql.FOLDER: folder}, (name, number), OF_MYSQL)
    return None


def version() -> tuple[str, str]:
    """What the server calls itself, and its version."""
    with RedisServer.start(owned=True) as server, redis_cli.client(server.url) as link:
        return redis_cli.product(link)


def main() -> int:
    """Run the rows that were asked for; 1 if a test failed in any."""
    parser = argparse.ArgumentParser(prog="make test-servers", description=__doc__)
    found = rows()
    parser.add_argument("--only", choices=[row.name for row in found], nargs="+", help="rows to run")
    parser.add_argument("--write", action="store_true", help=f"put each row into the table of {PAGE.relative_to(ROOT)}")
    parser.add_argument("--topologies", action="store_true", help="on a cluster, and with Sentinels")
    parser.add_argument("--tests", nargs="+", help="what to run")
    options, more = parser.parse_known_args()
    if options.topologies:
        more += ["--topologies", *WORKERS]
    table, green = HEADER, True
    os.environ.pop(URL_VARIABLE, None)
    for row in found:
        if options.only is None or row.name in options.only:
            os.environ.update(row.environment)
            name, number = row.product or version()
            folders = TOPOLOGIES if options.topologies else FOLDERS
            tests = options.tests or row.tests or [f"tests/{folder}" for folder in folders]
            print(f"{row.name}: {name} {number}", flush=True)
            outcome = runs.run(sys.executable, [*tests, *more])
            green = green and outcome.green
            left_out = "; ".join(f"{reason} ({count})" for reason, count in sorted(outcome.skipped.items()))
            line = f"| {name} | {number} | {outcome.text} | {left_out} |\n"
            print(line, flush=True)
            table += line
            if options.write:
                runs.write_row(PAGE, "topologies" if options.topologies else "servers", line, columns=2)
    print(table)
    return not green


if __name__ == "__main__":
    sys.exit(main())
