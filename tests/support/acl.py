"""Users with fewer rights, on every version of the server: what its ACL cannot say is said in another way, or skips."""

from __future__ import annotations

import pytest
import redis
import redis.asyncio

from .redis_cli import Version, version_of

EVERYTHING = ("reset", "on", ">secret", "~*", "&*", "+@all")
CHANNELS: Version = (6, 2)
"""The first version with rights to channels."""
SUBCOMMANDS: Version = (7, 0)
"""The first version that can deny one subcommand. Before, you deny the command, and allow the others."""
NO_CHANNELS = "its ACL knows no channels"
OTHERS = {
    "client|info": ("client|id", "client|kill", "client|list", "client|setinfo", "client|setname"),
    "client|kill": ("client|id", "client|info", "client|list", "client|setinfo", "client|setname"),
    "pubsub|numsub": ("pubsub|channels",),
    "script|load": ("script|exists", "script|flush"),
}


def setuser(link: redis.Redis | redis.asyncio.Redis, user: str, *rules: str) -> tuple[str, ...]:
    """Return the command that makes, or changes, a user of this server.

    Args:
        link: any client of the server.
        user: the name.
        *rules: as the newest servers take them.
    """
    version = version_of(link)
    return ("ACL", "SETUSER", user, *(word for rule in rules for word in _said(rule, version)))


def _said(rule: str, version: Version) -> tuple[str, ...]:
    if version < CHANNELS and rule == "&*":
        return ()
    if version < CHANNELS and (rule.startswith("&") or rule == "resetchannels"):
        pytest.skip(NO_CHANNELS)
    if version < SUBCOMMANDS and rule.startswith("-") and "|" in rule:
        return (rule.partition("|")[0], *(f"+{other}" for other in OTHERS[rule[1:]]))
    return (rule,)


def need_channels(link: redis.Redis | redis.asyncio.Redis) -> None:
    """Skip the test if this server has no rights to channels."""
    if version_of(link) < CHANNELS:
        pytest.skip(NO_CHANNELS)
