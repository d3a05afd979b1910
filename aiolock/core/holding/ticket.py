"""What moves a lease to another process, and its encoding as text."""

from __future__ import annotations

import base64
import zlib
from dataclasses import field

from ...errors import ConfigurationError
from ...owner import is_owner
from ...record import Record
from ...scripts.base import MAX_FENCE
from ...scripts.keys import Keys, check_name
from .hold import Hold

PREFIX = "aiolock1."


class Ticket(Record):
    """Who holds which lock, for the process that takes it over.

    As text it is ASCII without spaces, safe in JSON, URLs and headers, and at most about 900 characters, plus 4/3 of
    the namespace's bytes. It names no server, user or password; but anyone who has it can take the lock, as it carries
    the owner id.

    Attributes:
        kind: the primitive's.
        name: the lock's.
        owner: the id of the hold that was detached.
        weight: how much of the name it has: permits, or all of it.
        fence: its fence.
        tainted: a request of the owner went unanswered.
        namespace: of the manager that detached it.
        db: the number of its database.
    """

    kind: str
    name: str
    owner: str = field(repr=False)
    weight: int
    fence: int
    tainted: bool
    namespace: str
    db: int

    @classmethod
    def of(cls, hold: Hold, keys: Keys) -> Ticket:
        """Return the ticket of `hold`."""
        calls = hold.calls
        return cls(calls.kind, calls.name, hold.owner, calls.weight, hold.fence, hold.tainted, keys.namespace, keys.db)

    def encode(self) -> str:
        """As text."""
        numbers = (self.weight, self.fence, int(self.tainted), self.db)
        body = "\n".join([self.kind, self.owner, *map(str, numbers), self.namespace, self.name]).encode()
        check = zlib.crc32(body).to_bytes(4, "big")
        return PREFIX + base64.urlsafe_b64encode(check + body).decode().rstrip("=")

    @classmethod
    def read(cls, text: object) -> Ticket:
        """Return the ticket that `text` encodes.

        Raises:
            ConfigurationError: it is not a ticket.
        """
        try:
            ticket = cls._parse(text)
        except ValueError:  # so are binascii.Error, UnicodeError and ConfigurationError
            ticket = None
        if ticket is None or ticket.encode() != text:
            # Never quoted: anyone who reads the log could take the lock.
            raise ConfigurationError(
                "", "resume() got no ticket, a damaged one, or one of another version of aiolock: "
                "pass the text that lease.detach() returned, whole"
            )  # fmt: skip
        return ticket

    @classmethod
    def _parse(cls, text: object) -> Ticket | None:
        if not isinstance(text, str) or not text.startswith(PREFIX):
            return None
        packed = text.removeprefix(PREFIX)
        body = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))[4:].decode()
        kind, owner, weight, fence, tainted, db, namespace, name = body.split("\n", 7)
        ticket = cls(kind, check_name(name), owner, int(weight), int(fence), tainted == "1", namespace, int(db))
        sound = is_owner(owner) and ticket.weight > 0 and 0 < ticket.fence < MAX_FENCE
        return ticket if sound else None

    def check_home(self, keys: Keys) -> None:
        """Raise unless its namespace and database are those of `keys`.

        Raises:
            ConfigurationError: they differ.
        """
        if (self.namespace, self.db) != (keys.namespace, keys.db):
            raise ConfigurationError(
                self.name,
                f"the ticket of lock {self.name!r} is of namespace {self.namespace!r} and database {self.db}, this "
                f"manager of {keys.namespace!r} and {keys.db}: resume it with a manager like the one that detached it",
            )
