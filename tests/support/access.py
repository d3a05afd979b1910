"""How servers on loopback are reached: with a password, and by TLS."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from aiolock.testing.server import RedisServer, ServerError


class Access(NamedTuple):
    """What a server wants of its clients, and of the other servers.

    Attributes:
        password: of the default user; "" for none.
        certificate: a folder with `cert.pem` and `authority.pem`: then it speaks TLS, and nothing else.
    """

    password: str = ""
    certificate: Path | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """Those of a server."""
        secret = ("--requirepass", self.password, "--masterauth", self.password) if self.password else ()
        if self.certificate is None:
            return secret
        mine = str(self.certificate / "cert.pem")
        files = ("--tls-cert-file", mine, "--tls-key-file", mine, "--tls-ca-cert-file", self.authority)
        return (
            *secret,
            *files,
            "--tls-auth-clients",
            "no",
            "--tls-replication",
            "yes",
            "--port",
            "0",
            "--tls-port",
            "{port}",
        )

    @property
    def authority(self) -> str:
        """Who issued the certificate."""
        return "" if self.certificate is None else str(self.certificate / "authority.pem")

    def url(self, server: RedisServer, user: str = "", password: str | None = None) -> str:
        """The server's URL; of its default user, if there is no other."""
        password = self.password if password is None else password
        named = server.url.replace("//", f"//{user}:{password}@", 1) if password else server.url
        if self.certificate is None:
            return named
        return f"{named.replace('redis', 'rediss', 1)}?ssl_ca_certs={self.authority}"


OPEN = Access()
OURS = "tests"
"""What the servers call the connections of the tests' own clients."""


def start(access: Access, *options: str) -> RedisServer:
    """Start a server; skip the test if it knows no TLS."""
    try:
        return RedisServer.start(*options, *access.options)
    except ServerError as error:
        if access.certificate is not None and ("TLS" in str(error) or "Bad directive" in str(error)):
            pytest.skip("it was built without TLS")
        raise
