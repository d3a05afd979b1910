"""Where the servers are: the options that every command has, in one place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, Unpack

import click
from click.core import ParameterSource

from ..backends.redis.clients import of_url
from ..backends.redis.seeds import Seeds
from ..backends.redis.sentinels import Sentinels
from ..backends.survey import Survey
from ..errors import ConfigurationError
from ..manager import LockManager
from ..manager_options import ManagerOptions
from .namespace import Namespace

P = ParamSpec("P")
R = TypeVar("R")

URL = "redis://localhost:6379"


@dataclass(frozen=True, slots=True)
class Connection:
    """The servers that a command talks to.

    Attributes:
        urls: of the server, or of some nodes of the cluster; with Sentinels, only its credentials and database matter.
        cluster: whether they are nodes of a cluster.
        sentinels: addresses of Sentinels.
        service: what these call the master.
        namespace: prefix of all keys.
    """

    urls: tuple[str, ...]
    cluster: bool
    sentinels: tuple[str, ...]
    service: str
    namespace: str

    @property
    def source(self) -> str | Seeds | Sentinels:
        """What a manager, or a survey, is made with.

        Raises:
            ConfigurationError: options that contradict each other, or cannot work.
        """
        if bool(self.sentinels) != bool(self.service) or (self.cluster and self.service):
            raise ConfigurationError("", "Sentinels need --sentinel and --service, and a cluster needs neither")
        if len(self.urls) > 1 and not self.cluster:
            raise ConfigurationError("", "several URLs are several nodes of one cluster: add --cluster")
        if any(url.startswith("memory:") for url in self.urls):
            raise ConfigurationError("", "locks in the memory of another process cannot be reached")
        if self.cluster:
            return Seeds(self.urls)
        if self.service:
            return Sentinels([_address(one) for one in self.sentinels], self.service, *self.credentials())
        return self.urls[0]

    def manager(self, **options: Unpack[ManagerOptions]) -> LockManager:
        """Return a manager for these servers.

        Raises:
            ConfigurationError: an option that cannot work.
        """
        options["namespace"] = self.namespace
        return LockManager(self.source, **options)

    @asynccontextmanager
    async def names(self) -> AsyncIterator[Namespace]:
        """The names that these servers keep, for looking at them."""
        async with Survey(self.source) as survey:
            yield Namespace(survey, self.namespace)

    def credentials(self) -> tuple[str | None, str | None, int]:
        """User, password and database of the first URL."""
        _, options = of_url(self.urls[0])
        return options.get("username"), options.get("password"), int(options.get("db") or 0)


def _address(sentinel: str) -> str | tuple[str, int]:
    """A Sentinel's URL as it is; host and port apart."""
    if "://" in sentinel:
        return sentinel
    host, _, port = sentinel.rpartition(":")
    if not host or not port.isdecimal():
        host, port = sentinel, "26379"
    return host.strip("[]"), int(port)


def connected(command: Callable[Concatenate[Connection, P], R]) -> Callable[P, R]:
    """Give a command the options that say where the servers are; it gets them as one `Connection`."""

    @wraps(command)
    def with_connection(*args: P.args, **options: P.kwargs) -> R:
        given = {name: options.pop(name) for name in NAMES}
        taken = {name: before_command(name, value) for name, value in given.items()}
        connection = Connection(
            urls=taken["url"] or (URL,),  # type: ignore[arg-type]
            cluster=bool(taken["cluster"]),
            sentinels=taken["sentinel"],  # type: ignore[arg-type]
            service=str(taken["service"] or ""),
            namespace=str(taken["namespace"]),
        )
        return command(connection, *args, **options)

    return with_options(with_connection)


def with_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add the options that say where the servers are."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def before_command(name: str, value: object) -> object:
    """The value of an option: that of the command line, which may have it before the command's name, too."""
    here = click.get_current_context()
    if here.parent is not None and _typed(here.parent, name) and not _typed(here, name):
        return here.parent.params[name]
    return value


def _typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


NAMES = ("url", "cluster", "sentinel", "service", "namespace")
"""The options, as a command gets them."""
_OPTIONS = (
    click.option(
        "--url", metavar="URL", multiple=True, envvar="AIOLOCK_URL",
        help=f"Server, by default {URL}; a file, as sqlite:///locks.db; a database, as postgresql://host/name or "
        "mysql://host/name; an etcd cluster, as etcd://host:2379; ZooKeeper, as zookeeper://host:2181. With --cluster, "
        "one or more nodes. Other users of the machine can see it in the list of processes: with a password in it, set "
        "AIOLOCK_URL instead.",
    ),
    click.option("--cluster", is_flag=True, envvar="AIOLOCK_CLUSTER", help="The server is a Redis Cluster."),
    click.option(
        "--sentinel", metavar="HOST:PORT", multiple=True, envvar="AIOLOCK_SENTINEL",
        help="A Sentinel; give all of them. User, password and database of the master are then those of the URL.",
    ),
    click.option("--service", metavar="NAME", envvar="AIOLOCK_SERVICE", help="What the Sentinels call the master."),
    click.option(
        "--namespace", metavar="TEXT", default="aiolock", show_default=True, envvar="AIOLOCK_NAMESPACE",
        help="Prefix of all keys.",
    ),
)  # fmt: skip
