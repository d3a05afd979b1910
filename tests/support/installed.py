"""What version of a library the tests run beside: `make test-clients` brings older ones."""

from __future__ import annotations

from importlib.metadata import version


def at_least(library: str, major: int, minor: int) -> bool:
    """Whether `library` is as new as that."""
    found = version(library).split(".")
    return (int(found[0]), int(found[1])) >= (major, minor)
