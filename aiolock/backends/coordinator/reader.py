"""What is in the queues of a store, for those who only look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from ...errors import AiolockError, BackendError
from ...scripts.keys import Keys, subject_of
from ...scripts.view import Command, Inspection, NameView
from ..base import nothing
from ..reader import Reader
from ..transactional.replies import matcher
from .paths import Paths
from .seen import see
from .store import Away, Refusal, Store

KINDS = ("lock", "rw", "semaphore")


class CoordinatorReader(Reader):
    """Looks at queues; changes nothing. Raises the errors of a `Reader`.

    Args:
        address: where they are, for people.
        make: makes the store, for the paths of a namespace.
    """

    def __init__(self, address: str, make: Callable[[Paths], Store]) -> None:
        self.address: str = address
        self.ahead_us: int = 1  # it has no clock to ask for
        self.moving: int = 0
        self._shares = False
        self._make = make
        self._store: Store | None = None

    async def read(self, commands: Sequence[Command]) -> list[object]:
        """Find out that the store is there: it knows none of a server's commands."""
        for _, key, *_ in commands[:1]:
            await self._use(key)
        return []

    async def inspect(self, inspections: Sequence[Inspection]) -> list[NameView | None]:
        """See `Reader.inspect`. Costs a round trip a name, and one a holder."""
        views = []
        for inspection in inspections:
            key = inspection.commands[0][1]
            kind, name = subject_of(key)
            views.append(await self._look(key, kind, name) if kind in KINDS else None)
        return views

    async def scan(self, pattern: str, most: int = 1000, of_type: str = "") -> AsyncIterator[list[str]]:
        """See `Reader.scan`; nothing here has a type of Redis. Costs a round trip for `most` places."""
        if of_type:
            return
        store, paths = await self._use(pattern), Paths(_namespace(pattern))
        matches, keys = matcher(pattern), Keys(_namespace(pattern))
        after = paths.root
        while after:
            try:
                found, after = await store.paths(paths.root, after, most)
            except (Away, Refusal) as why:
                raise self._error(why) from why
            names = {name for path in found if (name := paths.read(path)) != ("", "")}
            yield sorted(key for kind, name in names if matches(key := keys.of(kind, name).lock))

    async def close(self) -> None:
        """Let go of the store."""
        store, self._store = self._store, None
        if store is not None:
            await store.aclose()

    async def _use(self, key: str) -> Store:
        if self._store is None:
            store = self._make(Paths(_namespace(key)))
            try:
                await store.open(nothing, nothing, nothing)
            except Away as why:
                await store.aclose()
                raise why.error from why
            self._store = store
        return self._store

    async def _look(self, key: str, kind: str, name: str) -> NameView | None:
        store = await self._use(key)
        try:
            return await see(store, Paths(_namespace(key)).of(kind, name), kind, name)
        except (Away, Refusal) as why:
            raise self._error(why) from why

    def _error(self, why: Away | Refusal) -> AiolockError:
        if isinstance(why, Away):
            return why.error
        return BackendError("", f"{self.address}: {why}", transient=why.transient)


def _namespace(key: str) -> str:
    return key.partition(":{")[0].rpartition(":")[0].replace("\\", "")
