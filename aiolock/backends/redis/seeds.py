"""How to connect to the nodes of a cluster: whom to ask first, and with which settings all are reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import ConfigurationError
from ..resolver import Resolver
from .clients import ClusterClient, Recipe, Remap, adapted, of_cluster, of_url
from .connection import ServerConnector

PORT = 6379


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def connector_at(address: Address, made: Recipe, pushes: bool, resolver: Resolver) -> ServerConnector:
    """Return what connects to a server as a recipe says, but at `address`; the rest as for `ServerConnector`."""
    kind, options = made
    options = {**options, "host": address.host, "port": address.port}
    return ServerConnector(adapted((kind, options), 3 if pushes else 2), pushes, resolver)


class Seeds:
    """Some nodes of a cluster, by which the others are found.

    Args:
        source: URLs with the same credentials and TLS settings, or a `RedisCluster`.

    Attributes:
        addresses: the nodes that were given.

    Raises:
        ConfigurationError: no URL, or one that cannot be that of a cluster's node; or a client that cannot be used.
    """

    def __init__(self, source: Sequence[str] | ClusterClient) -> None:
        self.addresses: Sequence[Address]
        self._remap: Remap | None = None
        self._resolver = Resolver()
        if isinstance(source, Sequence):
            self._recipe, self.addresses = _of_urls(source)
        else:
            self._recipe, nodes, self._remap = of_cluster(source)
            self.addresses = [Address(*node) for node in nodes]
        self.connector(self.addresses[0], True)  # finds bad options

    def remap(self, address: Address) -> Address:
        """Return where the node that announces `address` is reached."""
        return address if self._remap is None else Address(*self._remap((address.host, address.port)))

    def connector(self, address: Address, pushes: bool) -> ServerConnector:
        """Return what connects to the node at `address`.

        Args:
            address: where.
            pushes: messages may arrive between replies.
        """
        return connector_at(address, self._recipe, pushes, self._resolver)


def _of_urls(urls: Sequence[str]) -> tuple[Recipe, list[Address]]:
    if isinstance(urls, str) or not urls:
        raise ConfigurationError("", "a cluster needs a list of URLs, of one of its nodes at least")
    made, addresses = [], []
    for url in urls:
        if not isinstance(url, str) or url.startswith(("memory://", "unix://")):
            raise ConfigurationError("", "a node of a cluster needs a redis:// or rediss:// URL")
        kind, options = adapted(of_url(url), 3)
        if int(options.pop("db", 0) or 0):
            raise ConfigurationError(
                "", "a cluster has only database 0: leave its number out of the URL, and tell applications apart by "
                "namespace="
            )  # fmt: skip
        addresses.append(Address(str(options.pop("host", "localhost")), int(options.pop("port", PORT))))
        made.append((kind, options))
    if any(one != made[0] for one in made):
        raise ConfigurationError(
            "", "the URLs of a cluster need the same user, password and options: all its nodes are reached with those"
        )
    return made[0], list(dict.fromkeys(addresses))
