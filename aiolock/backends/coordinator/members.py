"""Host and port of the members of a cluster, as a URL says them."""

from __future__ import annotations


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
