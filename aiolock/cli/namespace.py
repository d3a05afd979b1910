"""The names of one namespace, as a survey of its servers finds them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable

from ..backends.survey import BATCH, Reader, Survey
from ..scripts.inspections import INSPECTED_KINDS, inspection_of
from ..scripts.keys import Keys, check_name
from ..scripts.view import NameView

_GLOB = re.compile(r"([*?\[\]\\])")


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

    async def inspect(self, master: Reader, names: Iterable[tuple[str, str]]) -> list[NameView]:
        """Return what a master has of these names. Cost: a round trip for every 500."""
        views: list[NameView] = []
        wanted = sorted(names)
        for at in range(0, len(wanted), BATCH):
            now_ms = master.now_us // 1000
            inspections = [inspection_of(self._keys, kind, name, now_ms) for kind, name in wanted[at : at + BATCH]]
            views += [view for view in await master.inspect(inspections) if view is not None]
        return views

    async def find(self, pattern: str = "*", kind: str | None = None) -> list[NameView]:
        """Return all names that match, on all masters, sorted by name."""
        views: list[NameView] = []
        for master in self.survey.masters:
            async for names in self.names(master, pattern, kind):
                views += await self.inspect(master, names)
        return sorted(views, key=lambda view: (view.name, view.kind))

    async def everything(self, name: str, kinds: Iterable[str] = INSPECTED_KINDS) -> list[NameView]:
        """Return what is known of one name, kind by kind, with its holders and its queue. Cost: a round trip; one
        more for the first, which asks for the server's clock.
        """
        check_name(name)
        master = self.survey.serving(self._keys.of("lock", name).lock)
        if not master.ahead_us:
            await master.read([])
        inspections = [inspection_of(self._keys, kind, name, master.now_us // 1000, deep=True) for kind in kinds]
        return [view for view in await master.inspect(inspections) if view is not None]
