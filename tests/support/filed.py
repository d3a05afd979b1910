"""Scripts and looks at a file of locks, behind the managers' backs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar
from unittest import mock

from aiolock.backends.sqlite import SQLiteEngine
from aiolock.backends.sqlite.rows import save
from aiolock.backends.sqlite.sockets import Sockets
from aiolock.backends.transactional.loaded import Loaded, Row
from aiolock.scripts import commands
from aiolock.scripts.base import Call
from aiolock.scripts.store import ErrorReply, Store

from .scripting import Refused, StoreSide, guarded

R = TypeVar("R")


class FileSide(StoreSide):
    """A `StoreSide` whose store is what the file has now: each step is a transaction of its own.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._engine = SQLiteEngine(path)
        self._sockets = Sockets(lambda *message: self._heard.append(message), mock.Mock())  # no loop: see `heard`
        self._engine._sockets = self._sockets
        self._engine._use()
        self._opened: Loaded | None = None
        self.store = Live(self)

    def run(self, call: Call[R]) -> R:
        with self.opened() as store:
            try:
                reply = commands.run(store, guarded(call.script.lua), call.keys, call.args)
            except ErrorReply as error:
                raise Refused(str(error)) from error
        return call.script.decode(reply)

    @contextmanager
    def opened(self) -> Iterator[Loaded]:
        """The whole file, in a transaction."""
        engine = self._engine
        engine._use()
        link = engine._link
        assert link is not None
        engine._begin(link)
        rows = {key: Row(*row) for key, *row in link.execute("SELECT key, kind, value, expires_us FROM aiolock")}
        store = Loaded(engine._clock.now_us(), rows, lambda channel: len(engine._listeners(link, channel)))
        try:
            yield store
        finally:
            save(link, store.changes())
            link.execute("COMMIT")
        for channel, payload in store.published:
            for name in engine._listeners(link, channel):
                self._sockets.send(name, channel, payload)

    def now_us(self) -> int:
        """The time of the file's clock."""
        return self._engine._clock.now_us()

    def keys(self) -> set[str]:
        """All that live."""
        with self.opened() as store:
            return set(store.keys())

    def listeners(self, channel: str) -> int:
        """How many listen."""
        assert self._engine._link is not None
        return len(self._engine._listeners(self._engine._link, channel))

    def listen(self, *channels: str) -> None:
        for channel in channels:
            assert self._engine._link is not None
            self._engine._listens(self._engine._link, channel)

    def heard(self) -> list[tuple[str, str]]:
        own = self._sockets._in = self._sockets._bound
        assert own is not None
        self._sockets._read(own)
        return super().heard()

    def close(self) -> None:
        self._engine._end()
        self._sockets.close()


OPERATIONS = frozenset(name for name in vars(Store) if not name.startswith("_"))


class Opened(Protocol):
    """What can show all that there is now, and write back what becomes of it."""

    def now_us(self) -> int: ...

    def opened(self) -> AbstractContextManager[Loaded]: ...


class Live(Store):
    """Each operation is one on what is kept when it is called.

    Args:
        side: where.
    """

    def __init__(self, side: Opened) -> None:
        super().__init__(side.now_us)
        self._side = side

    def __getattribute__(self, name: str) -> Any:
        if name not in OPERATIONS:
            return super().__getattribute__(name)

        def step(*args: Any) -> Any:
            with self._side.opened() as store:
                return getattr(store, name)(*args)

        return step
