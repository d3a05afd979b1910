"""`aiolock doctor`: whether a server suits locks, and what would not work."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import click

from ..backends.redis import ServerInfo, fields_of
from ..backends.stores import store_of
from ..backends.survey import Survey
from ..errors import AiolockError
from ..manager import LockManager
from ..scripts.keys import Keys
from .connection import Connection, connected
from .examination import (
    PROBED,
    Finding,
    Level,
    Measurement,
    examine,
    examine_file,
    examine_rights,
    judge_line,
    measure,
)
from .exits import ExitCode, leave, message_of
from .mysql_examination import OWNER, VARIABLES, examine_mysql
from .postgres_examination import SETTINGS, examine_postgres
from .text import columns, json_option, print_json


@click.command(short_help="Check whether a server is fit for locks.")
@json_option
@connected
@click.argument("server", required=False, metavar="[URL]")
def doctor(connection: Connection, as_json: bool, server: str | None) -> None:
    """Find out if the server suits locks: its version, settings and clock, your rights, the line to it.

    It changes nothing: it sends some 100 requests for the time, one after another, and asks for rights in transactions
    that it discards.

    Exit code 1 if there is a problem.
    """
    if server is not None:
        connection = dataclasses.replace(connection, urls=(server,))
    report = asyncio.run(_examine(connection))
    print_json(report.facts()) if as_json else click.echo(report.text())
    leave(ExitCode.NO if any(found.level is Level.PROBLEM for _, found in report.findings) else ExitCode.OK)


_DOWN = Finding(
    "topology",
    Level.PROBLEM,
    "this node says that the cluster is down",
    "see CLUSTER NODES: a master is down, or slots",
)

T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class Report:
    """All findings, each with the address of the server that it is about.

    Attributes:
        findings: in the order in which they were made.
        measured: the line to each server.
    """

    findings: list[tuple[str, Finding]] = dataclasses.field(default_factory=list)
    measured: dict[str, Measurement] = dataclasses.field(default_factory=dict)

    @contextmanager
    def unreachable(self, server: str) -> Iterator[None]:
        """Take note if a server cannot be asked, and go on with the others."""
        try:
            yield
        except AiolockError as error:
            found = Finding("server", Level.PROBLEM, message_of(error))
            if (server, found) not in self.findings:
                self.findings.append((server, found))

    def hear(
        self,
        cluster: str,
        statuses: Sequence[T],
        each: Callable[[T], Iterable[Finding]],
        all_: Callable[[Sequence[T]], Iterable[Finding]],
    ) -> None:
        """Take note of what the members of a cluster say of themselves."""
        for status in statuses:
            self.findings += [(getattr(status, "address", cluster), found) for found in each(status)]
        self.findings += [(cluster, found) for found in all_(statuses)]

    def facts(self) -> dict[str, object]:
        """What JSON says of it."""
        return {
            "findings": [{"server": server, **dataclasses.asdict(found)} for server, found in self.findings],
            "measured": {
                server: {key: round(value, 6) for key, value in dataclasses.asdict(one).items()}
                for server, one in self.measured.items()
            },
        }

    def text(self) -> str:
        """For people: one line a finding, and one for each advice."""
        lines = []
        for server in dict.fromkeys(server for server, _ in self.findings):
            rows, before = [], None
            for found in (found for one, found in self.findings if one == server):
                rows.append((f"  {found.level.value}", found.topic if found.topic != before else "", found.text))
                if found.advice:
                    rows.append(("", "", f"→ {found.advice}"))
                before = found.topic
            lines += [server, columns(rows)]
        return "\n".join(lines)


async def _examine(connection: Connection) -> Report:
    """Raises AiolockError if no server can be asked."""
    report, source = Report(), connection.source
    if isinstance(source, str) and store_of(source) == "sqlite":
        async with Survey(source) as survey:
            await survey.masters[0].read([])  # it is there
        async with LockManager(source, namespace=connection.namespace) as locks:
            abilities = locks._runtime.backend.abilities
        report.findings = [(source, found) for found in examine_file(abilities)]
        return report
    if isinstance(source, str) and store_of(source) == "postgresql":
        from ..backends.postgres.reader import DatabaseReader

        reader = DatabaseReader(source)
        try:
            (row,) = await reader.fetch(SETTINGS)
        finally:
            await reader.close()
        report.findings = [(reader.address, found) for found in examine_postgres(row)]
        if reader.pooled:
            advice = "add listen=host:port of the server to the URL of your managers, or poll"
            report.findings.append((reader.address, Finding("pooler", Level.ADVICE, "this is a pooler", advice)))
        return report
    if isinstance(source, str) and store_of(source) == "mysql":
        from ..backends.mysql.reader import DatabaseReader as MySQLReader

        looker = MySQLReader(source)
        try:
            variables = {str(name): str(value) for name, value in await looker.fetch(VARIABLES)}
            ((owner, wakes),) = await looker.fetch(OWNER)
        finally:
            await looker.close()
        report.findings = [(looker.address, found) for found in examine_mysql(variables, str(owner), bool(wakes))]
        return report
    if isinstance(source, str) and store_of(source) == "etcd":
        from ..backends.etcd.reader import EtcdReader
        from .etcd_examination import examine_member, examine_members

        members = EtcdReader(source)
        report.hear(members.address, await members.statuses(), examine_member, examine_members)
        return report
    if isinstance(source, str) and store_of(source) == "zookeeper":
        from ..backends.zookeeper.reader import ZooKeeperReader
        from .zookeeper_examination import examine_server, examine_servers

        servers = ZooKeeperReader(source)
        report.hear(servers.address, await servers.statuses(), examine_server, examine_servers)
        return report
    asked_as = "cluster" if connection.cluster else "sentinel" if connection.service else "standalone"
    speaks = await _speaks(connection)
    async with Survey(source, pushes=speaks is None) as survey:
        for master in survey.masters:
            with report.unreachable(master.address):
                reply, state = await master.ask([("INFO",), ("CLUSTER", "INFO")])
                found = list(examine(ServerInfo(fields_of(reply)), asked_as))
                if fields_of(state).get("cluster_state") == "fail":
                    found.append(_DOWN)
                if speaks is not None:
                    found.append(speaks)
                report.findings += [(master.address, one) for one in found]
                if not any(one.topic == "topology" and one.level is Level.PROBLEM for one in found):
                    report.measured[master.address] = measured = await measure(master)
                    report.findings += [(master.address, one) for one in judge_line(measured)]
        if not any(found.topic == "topology" and found.level is Level.PROBLEM for _, found in report.findings):
            with report.unreachable("the cluster"):
                master = survey.serving(Keys(connection.namespace).of("lock", PROBED).lock)
                with report.unreachable(master.address):
                    rights = await examine_rights(master, connection.namespace, connection.cluster)
                    report.findings += [(master.address, one) for one in rights]
    report.findings.sort(key=lambda each: each[0])
    return report


async def _speaks(connection: Connection) -> Finding | None:
    """Try RESP3, with which one connection can also be told things; None if the servers speak it.

    Raises:
        AiolockError: none of them is there at all.
    """
    failure: AiolockError | None = None
    for pushes in (True, False):
        async with Survey(connection.source, pushes=pushes) as survey:
            for master in survey.masters:
                try:
                    await master.ask([("PING",)])
                except AiolockError as error:
                    failure = failure or error
                    continue
                if pushes:
                    return None
                text = "no RESP3: a manager cannot receive messages on its connection"
                return Finding("protocol", Level.PROBLEM, text, "LockManager(url, waiting=Poll()), or another proxy")
    assert failure is not None
    raise failure
