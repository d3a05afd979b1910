"""The names of one namespace, as a survey of its servers finds them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..backends.reader import BATCH, Reader
from ..backends.survey import Survey
from ..errors import AiolockError, BackendError, ConfigurationError
from ..scripts.inspections import INSPECTED_KINDS, inspection_of
from ..scripts.keys import Keys, check_name
from ..scripts.redisson.inspection import look, suspect
from ..scripts.view import Look, NameView, with_processes
from .exits import message_of

_GLOB = re.compile(r"([*?\[\]\\])")
_PROBES = [str(number) for number in range(16)]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        views: sorted by name.
        unseen: what it could not see, in words.
        failed: whether a master could not be read.
    """

    views: list[NameView]
    unseen: list[str]
    failed: bool


class Namespace:
    """Finds names, and looks at them; changes nothing on a server.

    Args:
        survey: of the servers, entered.
        prefix: of the keys.
    """

    def __init__(self, survey: Survey, prefix: str) -> None:
        self.survey: Survey = survey
        self._prefix = prefix
        self._keys = Keys(prefix)

    async def names(
        self, master: Reader, pattern: str = "*", kind: str | None = None
    ) -> AsyncIterator[set[tuple[str, str]]]:
        """Yield the kinds and names on a master, as the scan of its keys finds them; each once.

        Cost: a round trip for every 1000 keys of the server.
        """
        before = _GLOB.sub(r"\\\1", self._prefix)
        encoded = self._keys.of("", pattern).lock.partition("{")[2][:-1]
        seen: set[tuple[str, str]] = set()
        async for keys in master.scan(f"{before}:{kind or '*'}:{{{encoded}}}*"):
            found = {name for key in keys if (name := self._keys.read(key)) is not None and name[0] in INSPECTED_KINDS}
            yield found - seen
            seen |= found

    async def inspect(self, master: Reader, names: Iterable[tuple[str, str]], deep: bool = False) -> list[NameView]:
        """Return what a master has of these names; `deep` lists holders and waiters, too. Cost: a round trip for every
        500.
        """
        views: list[NameView] = []
        wanted = sorted(names)
        for at in range(0, len(wanted), BATCH):
            now_ms = master.now_us // 1000
            part = wanted[at : at + BATCH]
            inspections = [inspection_of(self._keys, kind, name, now_ms, deep) for kind, name in part]
            views += [view for view in await master.inspect(inspections) if view is not None]
        return views

    async def check(self, pattern: str) -> None:
        """Make sure that a search can find everything.

        Raises:
            ConfigurationError: the pattern cannot be sent, or the server is one of several.
            BackendError: it is unreachable, or refuses.

        Cost: a round trip; none on a cluster.
        """
        try:
            pattern.encode()
        except UnicodeEncodeError:
            raise ConfigurationError("", f"the pattern {pattern!r} is not valid UTF-8 text") from None
        await self.survey.check_complete([self._keys.of("lock", name).lock for name in _PROBES])

    async def find(
        self, pattern: str = "*", kind: str | None = None, redisson: bool = False, holder: str | None = None
    ) -> Found:
        """Return all names that match, on all masters that can be read; or locks of Redisson's, whose names are keys.
        With `holder`, only those that a process has whose name matches that.

        Raises:
            AiolockError: none can be read.
        """
        if redisson:
            self.survey.need_redis("Redisson's locks")
        await self.check(pattern)
        masters = self.survey.masters
        deep = holder is not None
        found = [
            self.of_java(master, pattern) if redisson else self.views(master, pattern, kind, deep) for master in masters
        ]
        parts = await asyncio.gather(*map(_listed, found))
        failures = [part for part in parts if isinstance(part, AiolockError)]
        if len(failures) == len(parts):
            raise failures[0]
        views = [view for part in parts if isinstance(part, list) for view in part]
        if holder is not None:
            views = [view for view in with_processes(views) if _is_held_by(view, holder)]
        unseen = [message_of(failure) for failure in failures]
        unseen += [f"{one.address}: the slots of {one.moving} names are being moved" for one in masters if one.moving]
        return Found(sorted(views, key=lambda view: (view.name, view.kind)), unseen, bool(failures))

    async def views(
        self, master: Reader, pattern: str, kind: str | None, deep: bool = False
    ) -> AsyncIterator[list[NameView]]:
        """Yield what a master has of the names that match. Cost: see `names` and `inspect`."""
        async for names in self.names(master, pattern, kind):
            yield await self.inspect(master, names, deep)

    async def of_java(self, master: Reader, pattern: str) -> AsyncIterator[list[NameView]]:
        """Yield the locks of Redisson's on a master, each once. Cost: see `names`, and a round trip for 500 hashes."""
        seen: set[str] = set()
        async for keys in master.scan(pattern, of_type="hash"):
            fresh = [key for key in dict.fromkeys(keys) if key not in seen]
            seen.update(fresh)
            for at in range(0, len(fresh), BATCH):
                owned = await master.inspect([suspect(key) for key in fresh[at : at + BATCH]])
                views = await master.inspect([look(view.name) for view in owned if view is not None])
                yield [view for view in views if view is not None]

    async def everything(self, name: str, kinds: Iterable[str] = INSPECTED_KINDS) -> list[NameView]:
        """Return what is known of one name, kind by kind, with its holders and its queue. Cost: a round trip; one
        more for the first, which asks for the server's clock.
        """
        check_name(name)
        master = self.survey.serving(self._keys.of("lock", name).lock)
        if not master.ahead_us:
            await master.read([])
        inspections = [inspection_of(self._keys, kind, name, master.now_us // 1000, deep=True) for kind in kinds]
        return with_processes(await self._views(master, name, inspections))

    async def of_redisson(self, name: str) -> list[NameView]:
        """Return what is known of a lock of Redisson's: its name is a key. Cost: a round trip."""
        check_name(name)
        self.survey.need_redis("Redisson's locks")
        return await self._views(self.survey.serving(name), name, [look(name)])

    async def _views(self, master: Reader, name: str, inspections: Sequence[Look]) -> list[NameView]:
        views = [view for view in await master.inspect(inspections) if view is not None]
        if master.moving:
            raise BackendError(
                name, f"{master.address}: the slot of {name!r} is being moved: try again", transient=True
            )
        return views


def _is_held_by(view: NameView, pattern: str) -> bool:
    return any(fnmatchcase(holder.process, pattern) for holder in view.holders)


async def _listed(found: AsyncIterator[list[NameView]]) -> list[NameView] | AiolockError:
    try:
        return [view async for views in found for view in views]
    except AiolockError as error:
        return error
