"""An ensemble of ZooKeeper."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from aiolock.backends.zookeeper.names import HELD
from tests.support.zookeeper import ZooKeeper as Ensemble
from tests.support.zookeeper import word

from .members import ThreeMembers


class ZooKeeper(ThreeMembers[Ensemble]):
    """See `ThreeMembers`."""

    name = "zookeeper"

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[ZooKeeper]:
        """Start it; end it at the end."""
        with Ensemble(3) as ensemble:
            yield cls(ensemble)

    def version(self) -> str:
        texts = [word(member, "srvr") for member in self._cluster.members]
        return "ZooKeeper " + max(texts).partition("version: ")[2].partition("-")[0]

    def held(self) -> list[str]:
        return [path for path, _ in self._places()]

    def unlimited(self) -> list[str]:
        return [path for path, owner in self._places() if not owner]

    def _places(self) -> list[tuple[str, int]]:
        """Each with the session that keeps it."""
        client, found = self._cluster.client, []
        for kind in self._cluster.children("/aiolock"):
            for name in self._cluster.children(f"/aiolock/{kind}") if kind != "#" else ():
                for one in self._cluster.children(f"/aiolock/{kind}/{name}"):
                    stat = client.retry(client.exists, f"/aiolock/{kind}/{name}/{one}")
                    if stat is not None and one != HELD:
                        found.append((f"{kind}/{name}/{one}", stat.ephemeralOwner))
        return found
