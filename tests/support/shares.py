"""Which worker begins with which tests: `--dist worksteal` gives each an equal share of the list, in its order, and one
that has ended takes the second half of what another still has to do.

What takes long comes first in each share: none of it may begin when the others have ended. What needs the same servers
stays together: each worker that needs a cluster starts nine servers, which cost something even while nobody asks them,
and each that needs ZooKeeper starts a JVM.
"""

from __future__ import annotations

import pytest

SHORT = {"cancellation", "contract", "integration", "recipes", "scripts", "unit"}
"""Folders of tests that take some hundredths of a second, but for the differentials; most others start processes, or
wait."""
FAMILIES: dict[str, set[str]] = {
    "cluster": {"shared_cluster", "shared_masters"},
    "sentinels": {"shared_sentinels"},
    "replicated": {"shared_pair"},
    "quorum": {"three_servers"},
    "etcd": set(),
    "zookeeper": set(),
}
"""What servers are called as a place of the contract, as a store, or as a folder, and the fixtures that start them for
the whole run."""


def shared_out(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the same tests, one share after the other."""
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    families: dict[str, list[pytest.Item]] = {name: [] for name in FAMILIES}
    long: list[pytest.Item] = []
    short: list[pytest.Item] = []
    for item in items:
        if (family := _family(item)) is not None:
            families[family].append(item)
        elif item.path.parent.name in SHORT and "differential" not in item.path.name:
            short.append(item)
        else:
            long.append(item)
    for together in sorted(families.values(), key=len, reverse=True):
        min(shares, key=len).extend(together)
    for item in long:
        min(shares, key=len).append(item)
    shares.sort(key=len)
    for number, share in enumerate(shares):  # as pytest-xdist divides what is left
        rest = len(short) + sum(map(len, shares[number:]))
        missing = max(0, rest // (workers - number) - len(share))
        share += short[:missing]
        del short[:missing]
    return [item for share in shares for item in share]


def _family(item: pytest.Item) -> str | None:
    names = set(getattr(item, "fixturenames", ()))
    params = item.callspec.params if hasattr(item, "callspec") else {}
    called = {params.get("place"), params.get("store"), item.path.parent.name}
    return next((name for name, fixtures in FAMILIES.items() if fixtures & names or name in called), None)
