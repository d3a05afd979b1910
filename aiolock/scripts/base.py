"""A script, and one request to run it."""

from __future__ import annotations

import asyncio
import copy
import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, cast

from ..errors import AiolockError, BackendError
from ..log import Log

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader

Q = TypeVar("Q")
R = TypeVar("R")
logger: Log = Log("aiolock.redis")

Arg = str | int
Reply = int | bytes | None | list["Reply"]

Ending = Literal["clean", "undone", "dirty", "declined"]
"""How an owner ends: after a body that was valid to its end; without having entered; after a loss; granted by a
queue when it had ended long ago: then only what nobody has asked for or renewed.
"""


class Keep(NamedTuple):
    """For how long a name stays taken when its holder has ended, by nobody: the shorter of two.

    Attributes:
        cut_ms: how much of the hold's time ends with it, and the name stays taken for the rest.
        left_ms: how long from when the request is carried out.
    """

    cut_ms: int
    left_ms: int


MAX_FENCE = 2**53
"""Lua counts exactly below this."""
JOIN = 0
DONT_QUEUE = -1
"""Where a server keeps the queue: join it at its end; do not join it, and be refused if it is not your turn."""


class Part(NamedTuple):
    """One line of a request that consists of many."""

    keys: tuple[str, ...]
    args: tuple[Arg, ...]


class Script(Generic[R]):
    """Lua, and the decoder for its answers.

    Args:
        package: the package that holds the Lua file.
        name: the Lua file's name without its ending; errors and logs use it for the script.
        decode: turns the raw reply into what callers get.
        prelude: names of Lua files that go in front of it; those of another family as `family/name`.
        unacknowledged: for a script that grants or extends: returns what its result is worth if too few replicas have
            it, with the error as the reason. None for one that does neither.
        ends: if it ends an owner permanently: makes of a call what does that alone, None if nothing does. A late copy
            of that changes nothing, so a new master gets one of what the old one answered just before.
    """

    __slots__ = ("_replicated", "_sharded", "decode", "ends", "lua", "name", "sha", "unacknowledged")

    def __init__(
        self,
        package: str,
        name: str,
        decode: Callable[[Reply], R],
        unacknowledged: Callable[[R, BackendError], R | BackendError] | None = None,
        prelude: Sequence[str] = (),
        ends: Callable[[Call[Any]], Call[Any] | None] | None = None,
    ) -> None:
        self.name: str = name
        self.ends: Callable[[Call[Any]], Call[Any] | None] | None = ends
        parts = (*prelude, name)
        self.lua: str = "".join(read(__package__ if "/" in part else package, part) for part in parts)
        self.sha: str = _sha(self.lua)
        self.decode: Callable[[Reply], R] = decode
        self.unacknowledged: Callable[[R, BackendError], R | BackendError] | None = unacknowledged
        self._sharded: Script[R] | None = None
        self._replicated: Script[R] | None = None

    def after(self, lua: str) -> Script[R]:
        """Return the same with this Lua in front."""
        made = copy.copy(self)
        made.lua = lua + self.lua
        made.sha = _sha(made.lua)
        return made

    def decoding(self, decode: Callable[[Reply], Q]) -> Script[Q]:
        """Return the same with another decoder."""
        made = cast("Script[Q]", copy.copy(self))
        made.decode = decode
        made._sharded = made._replicated = None
        return made

    @property
    def sharded(self) -> Script[R]:
        """The same for a node of a cluster: see sharded.lua."""
        if self._sharded is None:
            publishes = "'PUBLISH'" in self.lua
            self._sharded = made = self.after(read(__package__, "sharded") if publishes else "")
            made._sharded = made
        return self._sharded

    @property
    def replicated(self) -> Script[R]:
        """The same for a node of a cluster whose replicas must acknowledge what it does: see replicated.lua."""
        if self._replicated is None:
            promises = self.unacknowledged is not None
            self._replicated = made = self.sharded.after(read(__package__, "replicated") if promises else "")
            made._replicated = made
        return self._replicated

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


def _sha(lua: str) -> str:
    return hashlib.sha1(lua.encode(), usedforsecurity=False).hexdigest()


@functools.cache
def read(package: str, path: str) -> str:
    """Return a Lua file, by its path in a package without its ending. At import: an upgrade may replace it later."""
    # As importlib.resources does it, whose import takes longer than all the files.
    module = sys.modules[package]
    assert module.__spec__ is not None
    assert module.__file__ is not None
    loader = cast("ResourceLoader", module.__spec__.loader)
    return loader.get_data(os.path.join(os.path.dirname(module.__file__), *f"{path}.lua".split("/"))).decode()


class Combiner(Generic[R]):
    """Makes one request of many parts; the answer has an outcome for each. Equal ones are written together.

    Args:
        script: answers them all.
        head: ARGV before those of the parts.
    """

    __slots__ = ("_what",)

    most_keys: ClassVar[int] = 2000
    """In one request."""

    def __init__(self, script: Script[list[R]], head: tuple[Arg, ...] = ()) -> None:
        self._what = (script, head)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Combiner) and self._what == other._what

    def __hash__(self) -> int:
        return hash(self._what)

    def __call__(self, parts: Iterable[Part]) -> Call[list[R]]:
        script, head = self._what
        keys: list[str] = []
        args: list[Arg] = list(head)
        for part in parts:
            keys += part.keys
            args += part.args
        return Call("", script, keys, args)


class PartRefused(Exception):
    """The server refused a part of a batch as it would refuse every request: it is a replica by now. Its other answers
    say nothing either.
    """


def drop() -> bool:
    """The default for `Call.unanswered`: do not write it again."""
    return False


def refuse(call: Call[Any], error: Exception) -> None:
    """The default for `Call.refused`: the error is its result."""
    call.end(BackendError(call.name, f"{call.doing} was refused: {error}"))


def resolve(future: asyncio.Future[R], result: R | BackendError) -> None:
    """Pass a result on to whoever awaits it, if the future is still awaited."""
    if future.done():
        return
    if isinstance(result, BackendError):
        future.set_exception(result)
        future.exception()  # a call that is not awaited must not log "exception was never retrieved"
    else:
        future.set_result(result)


class Call(Generic[R]):
    """One request to run a script: a primitive makes it; a backend writes it, and keeps it until its reply, over as
    many connections as that takes.

    Attributes:
        name: the lock the request is about, for errors.
        script: what to run.
        keys: KEYS.
        args: ARGV; numbers are whole, durations in milliseconds.
        unanswered: asked once for each connection that died after the call was written and before its reply came: True
            writes it again on the next connection, in the old order and before newer calls; False gives up, and the
            future fails with a transient `BackendError`. It may `run` another call, which takes this one's place.
        unrun: asked instead if the server says that it did not run: whether it is still wanted. None: `unanswered` is
            asked.
        settle: gets the result or the `BackendError` exactly once, the moment the call is over, even if whoever awaited
            its future was cancelled. Put here what must happen on a reply. It may `run` other calls.
        sent_at: clock time, in seconds, just before the write whose reply this is; 0.0 until then.
        writes: how often it was written. 0: the server cannot have seen it.
        withdrawn: set it while `writes` is 0, and the call is never written.
        parts: what is written instead, if its keys are in several slots: see `JointCall`.
        future: its result, if it is awaited; others may cancel it or fail it at any time.
        refused: gets the server's error reply, and decides what becomes of the call; set by whoever writes it.
        misses: how often it was refused without having run, and written again.
        away: told why, each time an attempt to connect to its server has failed while it waits for that; None if it can
            wait. It may `withdraw` the call; otherwise that is written anyway when the server is back.
    """

    parts: Sequence[Call[Any]] = ()
    __slots__ = (
        "args",
        "away",
        "future",
        "keys",
        "misses",
        "name",
        "refused",
        "script",
        "sent_at",
        "settle",
        "unanswered",
        "unrun",
        "withdrawn",
        "writes",
    )

    def __init__(
        self,
        name: str,
        script: Script[R],
        keys: Sequence[str],
        args: Sequence[Arg],
        unanswered: Callable[[], bool] = drop,
    ) -> None:
        self.name: str = name
        self.script: Script[R] = script
        self.keys: Sequence[str] = keys
        self.args: Sequence[Arg] = args
        self.unanswered: Callable[[], bool] = unanswered
        self.unrun: Callable[[], bool] | None = None
        self.settle: Callable[[R | BackendError], None] | None = None
        self.sent_at: float = 0.0
        self.writes: int = 0
        self.withdrawn: bool = False
        self.future: asyncio.Future[R] | None = None
        self.refused: Callable[[Call[Any], Exception], None] = refuse
        self.misses: int = 0
        self.away: Callable[[AiolockError], None] | None = None

    @property
    def doing(self) -> str:
        """What it asks of the server, for messages."""
        name = f" of lock {self.name!r}" if self.name else ""
        return f"{self.script.name}{name}"

    def withdraw(self) -> bool:
        """Take the call back; return False if a server may have seen it."""
        if self.writes == 0:
            self.withdrawn = True
        return self.withdrawn

    def become(self, other: Call[R]) -> None:
        """From now on ask for what `other` asks for, whenever it is written."""
        self.keys, self.args = other.keys, other.args

    def again(self, unrun: bool = False) -> bool:
        """Ask its maker whether to write it again; `unrun`: no server has run it, as this one says."""
        try:
            return self.unrun() if unrun and self.unrun is not None else self.unanswered()
        except Exception:
            logger.exception("the callback of an unanswered request failed")
            return False

    def unreachable(self, known: AiolockError) -> None:
        """Tell its maker that its server cannot be reached."""
        if self.away is not None and not self.withdrawn:
            try:
                self.away(known)
            except Exception:
                logger.exception("the callback of an unanswered request failed")

    def answer(self, reply: Any, doubt: BackendError | None = None) -> None:
        """Take the server's reply, or its error reply; `doubt` says why it may not outlast the server."""
        if isinstance(reply, Exception):
            self.refused(self, reply)
            return
        script = self.script
        try:
            result: R | BackendError = script.decode(reply)
            if doubt is not None and script.unacknowledged is not None:
                result = script.unacknowledged(cast(R, result), doubt)
        except PartRefused as error:
            self.refused(self, error)
            return
        except Exception as error:
            result = BackendError(
                self.name, f"Redis answered {self.doing} with something unexpected: does a proxy change replies?"
            )
            result.__cause__ = error
        self.end(result)

    def unwritten(self) -> None:
        """It was withdrawn: it was never written, and never will be."""
        self.end(BackendError(self.name, f"{self.doing} was withdrawn before it was sent", transient=True))

    def end(self, result: R | BackendError) -> None:
        """It is over: first tell its `settle`, then whoever awaits its future."""
        if self.settle is not None:
            try:
                self.settle(result)
            except Exception:
                logger.exception("the callback of a finished request failed")
        self.settle = self.away = self.unrun = None  # they may refer to the call: avoid a reference cycle
        self.unanswered = drop
        if self.future is not None:
            resolve(self.future, result)

    def __repr__(self) -> str:
        return f"<Call {self.script.name} {self.name!r} writes={self.writes}>"


def as_text(value: Reply) -> str:
    """Return a raw reply that is text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def as_number(value: Reply) -> int:
    """Return a raw reply that is a whole number, or the text of one."""
    return int(value) if isinstance(value, (int, bytes)) else 0


def as_flag(reply: Reply) -> bool:
    """Return a raw reply that says yes or no, or how much was changed."""
    return as_number(reply) > 0


def as_list(reply: Reply) -> list[Reply]:
    """Return a raw reply that is a list."""
    return reply if isinstance(reply, list) else [reply]


def copied(call: Call[Any]) -> Call[Any]:
    """The same request once more, for which nobody waits."""
    return Call(call.name, call.script, call.keys, call.args)
