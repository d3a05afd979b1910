"""Host and port of a member, as a URL says them."""

from __future__ import annotations

from ...errors import ConfigurationError


def member(text: str, port: int, what: str) -> tuple[str, int]:
    """Return the host and the port.

    Args:
        text: as it stands between commas.
        port: if none is given.
        what: it must be, for people.

    Raises:
        ConfigurationError: it is none.
    """
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, number = text, str(port)
    host = host.strip("[]")
    if not host or not number.isdigit() or not 0 < int(number) < 65536:
        raise ConfigurationError("", f"{text!r} is no {what}")
    return host, int(number)
