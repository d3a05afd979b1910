"""Where an ensemble of ZooKeeper is: what a URL says."""

from __future__ import annotations

import copy
import random
import ssl
from urllib.parse import parse_qsl, unquote, urlsplit

from ...errors import ConfigurationError
from ..coordinator.members import FILES, member, tls_of

PORT = 2181


class ZooKeeperAddress:
    """What a URL says: `zookeeper://[user:password@]host[:port],…[/chroot]`, or `zookeepers://…?ca=…&cert=…&key=…` with
    TLS.

    Args:
        url: as given.

    Attributes:
        members: host and port of each, in an order that differs between processes, so that each server has its share.
        user, password: who uses it; "" for nobody.
        tls: how it is encrypted; None if it is not.
        root: before every path; "" for none.
        shown: the servers and the root, for people.

    Raises:
        ConfigurationError: a URL that cannot work.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        names, _, hosts = parts.netloc.rpartition("@")
        self.root: str = unquote(parts.path).rstrip("/")
        self.shown: str = hosts + self.root
        found = [_server(one) for one in hosts.split(",")]
        self.members: list[tuple[str, int]] = random.sample(found, len(found))
        user, _, password = names.partition(":")
        self.user: str = unquote(user)
        self.password: str = unquote(password)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(set(options) - set(FILES)) if parts.scheme == "zookeepers" else sorted(options)
        if unknown or parts.fragment:
            raise ConfigurationError(
                "", f"the URL of ZooKeeper has {(unknown or [parts.fragment])[0]!r}: only zookeepers:// has options, "
                "which are ca, cert and key"
            )  # fmt: skip
        self.tls: ssl.SSLContext | None = tls_of(options, "ZooKeeper") if parts.scheme == "zookeepers" else None
        if any(part in ("", ".", "..", "zookeeper") for part in self.root.split("/")[1:]):
            raise ConfigurationError("", f"ZooKeeper has no folder {self.root!r} for locks: write another path")

    def only(self, host: str, port: int) -> ZooKeeperAddress:
        """The same, of one server."""
        made = copy.copy(self)
        made.members, made.shown = [(host, port)], f"{host}:{port}{self.root}"
        return made


def _server(text: str) -> tuple[str, int]:
    found = member(text, PORT)
    if found is None:
        raise ConfigurationError("", f"{text!r} is not a server of ZooKeeper: write zookeeper://host:port,host:port")
    return found
