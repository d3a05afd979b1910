"""What a server says of itself in INFO, and what that means for locks."""

from __future__ import annotations

from collections.abc import Mapping

OLDEST = 6
"""The first version of Redis that will do."""
_MODES = ("redis_mode", "server_mode", "redict_mode", "mode")
"""What the mode is called: in Redis, in Valkey, in Redict, and in the answer to HELLO."""


def fields_of(reply: object) -> dict[str, str]:
    """The fields of an INFO; none if the server has none or allows none."""
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}


class ServerInfo:
    """A server, as it describes itself.

    Args:
        fields: what INFO says.
        role: what ROLE says.

    Attributes:
        fields: as given.
        role: what it is to its replicas; "" if it does not say.
        mode: "standalone", "cluster" or "sentinel"; "" if it does not say.
    """

    def __init__(self, fields: Mapping[str, str], role: object = None) -> None:
        self.fields: Mapping[str, str] = fields
        match role:
            case [bytes() as said, *_]:
                self.role: str = said.decode(errors="replace")
            case _:
                self.role = fields.get("role", "")
        mode = next((fields[name] for name in _MODES if name in fields), "")
        self.mode: str = "sentinel" if self.role == "sentinel" else mode

    @property
    def replica(self) -> bool:
        """Whether it is one: another server keeps the locks."""
        return self.role in ("slave", "replica")

    @property
    def outdated(self) -> bool:
        """Whether its version will not do. Forks name the version of Redis that they are compatible with."""
        major = self.fields.get("redis_version", "").partition(".")[0]
        return major.isdecimal() and int(major) < OLDEST

    @property
    def policy(self) -> str:
        """What it deletes when its memory is full."""
        return self.fields.get("maxmemory_policy", "noeviction")

    @property
    def memory(self) -> int:
        """How much it may use, in bytes; 0 for all that there is."""
        limit = self.fields.get("maxmemory", "")
        return int(limit) if limit.isdecimal() else 0

    @property
    def evicts(self) -> bool:
        """Whether locks can vanish because its memory is full."""
        return self.memory > 0 and self.policy != "noeviction"
