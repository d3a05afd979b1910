"""An etcd cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.support.etcd import Etcd as Cluster

from .members import ThreeMembers


class Etcd(ThreeMembers[Cluster]):
    """See `ThreeMembers`."""

    name = "etcd"

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[Etcd]:
        """Start it; end it at the end."""
        with Cluster(3) as cluster:
            yield cls(cluster)

    def version(self) -> str:
        return f"etcd {self._cluster.ask('maintenance/status')['version']}"

    def held(self) -> list[str]:
        return [key for key in self._keys() if not key.endswith("#last")]

    def unlimited(self) -> list[str]:
        pairs = self._cluster.pairs("\0", "\xff")
        return [pair["key"] for pair in pairs if "lease" not in pair and not pair["key"].endswith("#last")]

    def _keys(self) -> list[str]:
        return [pair["key"] for pair in self._cluster.pairs("aiolock/", "aiolock0") if "/#/" not in pair["key"]]
