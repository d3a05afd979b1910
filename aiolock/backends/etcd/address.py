"""Where a cluster of etcd is, and who uses it: what a URL says."""

from __future__ import annotations

import copy
import ssl
from urllib.parse import parse_qsl, unquote, urlsplit

from ...errors import ConfigurationError
from ..coordinator.members import FILES, member, tls_of

PORT = 2379


class EtcdAddress:
    """What a URL says: `etcd://[user:password@]host[:port],…`, or `etcds://…?ca=…&cert=…&key=…` with TLS.

    Args:
        url: as given.

    Attributes:
        members: host and port of each.
        user, password: who uses it; "" for nobody.
        tls: how it is encrypted; None if it is not.
        shown: the members, for people.

    Raises:
        ConfigurationError: a URL that cannot work.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        names, _, hosts = parts.netloc.rpartition("@")
        self.shown: str = hosts
        self.members: list[tuple[str, int]] = [_member(one) for one in hosts.split(",")]
        user, _, password = names.partition(":")
        self.user: str = unquote(user)
        self.password: str = unquote(password)
        if parts.path not in ("", "/") or parts.fragment:
            raise ConfigurationError("", f"the URL {self._safe(url)!r} has a path, but etcd has none: leave it out")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(set(options) - set(FILES)) if parts.scheme == "etcds" else sorted(options)
        if unknown:
            raise ConfigurationError(
                "", f"the URL of etcd has {unknown[0]!r}: only etcds:// has options, which are ca, cert and key"
            )
        self.tls: ssl.SSLContext | None = None
        if parts.scheme == "etcds":
            self.tls = tls_of(options, "etcd")
            self.tls.set_alpn_protocols(["h2"])

    def only(self, host: str, port: int) -> EtcdAddress:
        """The same, of one member."""
        made = copy.copy(self)
        made.members, made.shown = [(host, port)], f"{host}:{port}"
        return made

    def _safe(self, url: str) -> str:
        return url.replace(self.password, "***") if self.password else url


def _member(text: str) -> tuple[str, int]:
    found = member(text, PORT)
    if found is None:
        raise ConfigurationError("", f"{text!r} is not a member of etcd: write etcd://host:port,host:port")
    return found
