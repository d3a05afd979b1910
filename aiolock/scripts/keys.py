"""The only place that names keys and channels."""

from __future__ import annotations

from ..errors import ConfigurationError

MAX_NAME_BYTES = 512
GRACE_MS = 60 * 1000
"""How long, beyond a ttl, a clean name keeps its fence, and a tombstone stays."""
DIRTY_MS = 24 * 3600 * 1000
"""How long a name remembers that its last holder vanished."""
_ENCODED = str.maketrans({"{": "%7B", "}": "%7D", "%": "%25"})
DEAD = ":dead:"
"""Between a name's key and an owner id: that owner's tombstone."""


class Keys:
    """Names keys and channels for one namespace and database.

    Every key of a name carries the name as its hash tag, so that all of them land in one cluster slot. The kind is in
    the key: a lock and a semaphore with the same name are independent, but a fair lock is the lock of its name. Pub/sub
    has no databases, so channels carry theirs.

    Args:
        namespace: prefix of every key, without braces.
        db: the database's number.

    Attributes:
        namespace: as given.
        db: as given.
    """

    __slots__ = ("_channel_end", "db", "managers", "namespace")

    def __init__(self, namespace: str, db: int = 0) -> None:
        if (
            not isinstance(namespace, str)
            or not namespace
            or not namespace.isprintable()
            or set(namespace) & set("{} ")
        ):
            raise ConfigurationError("", f"namespace {namespace!r} must be printable text without spaces and braces")
        self.namespace: str = namespace
        self.db: int = db
        self._channel_end = f":{db}" if db else ""
        # The channels of managers, without their ids: scripts append those.
        self.managers: str = f"{namespace}:manager:{db}:" if db else f"{namespace}:manager:"

    def of(self, kind: str, name: str) -> NameKeys:
        """Return the keys of one name of one kind."""
        return NameKeys(f"{self.namespace}:{kind}:{{{name.translate(_ENCODED)}}}", self._channel_end)

    def read(self, key: str) -> tuple[str, str] | None:
        """Return the kind and the name that a key is about; None if it is not one of these keys."""
        kind, name = subject_of(key)
        return (kind, name) if name and key.startswith(self.of(kind, name).lock) else None

    def manager(self, manager_id: str) -> str:
        """Return the channel for messages to one manager."""
        return self.managers + manager_id


class NameKeys:
    """Keys of one name: a lock's, those of a name with a capacity, and tombstones."""

    __slots__ = ("_channel_end", "lock")

    def __init__(self, lock: str, channel_end: str) -> None:
        self.lock: str = lock
        self._channel_end = channel_end

    @property
    def state(self) -> str:
        """The key of all that is known of a name with a capacity."""
        return f"{self.lock}:state"

    @property
    def free(self) -> str:
        """The channel that announces a release to all waiters."""
        return f"{self.lock}:free{self._channel_end}"

    @property
    def queue(self) -> tuple[str, str]:
        """The keys of a name with a capacity: a hash with its state, holders and waiters, and their order."""
        return self.state, f"{self.lock}:order"

    @property
    def written(self) -> str:
        """The key that says which write under the lock was the last one."""
        return f"{self.lock}:written"

    @property
    def of_lock(self) -> tuple[str, str, str]:
        """The keys of a name with one holder and a queue: its state, its queue, and which managers are alive."""
        return self.lock, f"{self.lock}:queue", f"{self.lock}:alive"

    def dead(self, owner: str) -> str:
        """Return the tombstone of an owner that must never hold again."""
        return self.lock + DEAD + owner


def subject_of(key: str) -> tuple[str, str]:
    """Return the kind and the name that a key of any namespace is about."""
    head, _, rest = key.partition(":{")
    name = rest.partition("}")[0].replace("%7B", "{").replace("%7D", "}").replace("%25", "%")
    return head.rpartition(":")[2], name


def check_name(name: object) -> str:
    """Return `name` if it can name a lock.

    Raises:
        ConfigurationError: not text, empty, longer than 512 bytes of UTF-8, or not encodable.
    """
    if not isinstance(name, str):
        raise ConfigurationError(str(name), f"a lock's name must be str, not {type(name).__name__}: {name!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise ConfigurationError(repr(name), f"the name {name!r} is not valid UTF-8 text: {error}") from error
    if not 1 <= size <= MAX_NAME_BYTES:
        shown = name if len(name) < 40 else f"{name[:40]}…"
        raise ConfigurationError(
            shown,
            f"the name {shown!r} has {size} bytes of UTF-8; 1 to {MAX_NAME_BYTES} are allowed: hash a longer one",
        )
    return name
