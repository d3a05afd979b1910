"""The members of a cluster, and their certificates, as a URL says them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from ...errors import ConfigurationError

FILES = ("ca", "cert", "key")
"""Options of a URL with TLS: who signs for the members, and what proves who we are."""


def member(text: str, port: int) -> tuple[str, int] | None:
    """Return the host and the port; None if it is no member.

    Args:
        text: as it stands between commas.
        port: if none is given.
    """
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, number = text, str(port)
    host = host.strip("[]")
    return (host, int(number)) if host and number.isdigit() and 0 < int(number) < 65536 else None


def tls_of(files: Mapping[str, str], store: str) -> ssl.SSLContext:
    """Return how connections are encrypted.

    Args:
        files: see `FILES`.
        store: for people.

    Raises:
        ConfigurationError: a file cannot be read.
    """
    try:
        made = ssl.create_default_context(cafile=files.get("ca"))
        if "cert" in files:
            made.load_cert_chain(files["cert"], files.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError("", f"the certificates for {store} cannot be read: {error}") from error
    return made
