"""Row ST: the stores of locks, side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from statistics import median

from ..contest import OURS, PROCESSES, Team
from ..contest import in_turns as contests
from ..crew import crew
from ..databases import Absent, Database, etcd, mariadb, postgres, zookeeper
from ..figure import Figure, Findings, percentile
from ..peers.adapter import opened
from ..stage import Stage
from ..turns import in_turns, lock_pairs


@contextmanager
def _file() -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="aiolock-bench-") as folder:
        yield Database(f"sqlite:///{folder}/locks.db", "a file", lambda _: None)


SERVERS: Mapping[str, Callable[[], AbstractContextManager[Database]]] = {
    "a file": _file,
    "PostgreSQL": postgres,
    "MariaDB": mariadb,
    "etcd": etcd,
    "ZooKeeper": zookeeper,
}


async def side_by_side(**given: object) -> dict[str, object]:
    """One task with a free lock, and processes that want one lock. No commit waits for a disk."""
    stage, found = Stage(**given), Findings()  # type: ignore[arg-type]
    with ExitStack() as running:
        urls = {"Redis": stage.url}
        for label, server in SERVERS.items():
            try:
                database = running.enter_context(server())
            except Absent as error:
                found.figures.append(Figure("ST", f"pairs/s: {label}", None, note=str(error)))
            else:
                database.sync(False)
                urls[label] = database.url
        found.figures += await _alone(urls, stage)
        found.figures += _contended(urls, stage)
    return found.as_json()


async def _alone(urls: Mapping[str, str], stage: Stage) -> list[Figure]:
    async with AsyncExitStack() as stack:
        each = stage.scale.pairs // 4
        ours = {label: await stack.enter_async_context(opened(OURS, url)) for label, url in urls.items()}
        contestants = {label: lock_pairs(adapter, 1, each) for label, adapter in ours.items()}
        costs = await in_turns(contestants, each, stage.scale.rounds)
    return [
        Figure.median("ST", f"pairs/s: {label}", [1 / cost.wall for cost in seen], "1/s")
        for label, seen in costs.items()
    ]


def _contended(urls: Mapping[str, str], stage: Stage) -> list[Figure]:
    with crew(PROCESSES, stage.python, stage.loop) as workers:
        teams = {label: Team.even(workers, OURS, url, tasks=1) for label, url in urls.items()}
        seen = contests(teams, stage.scale.handoffs, stage.scale.handoff_rounds)
    found = []
    for label, crowds in seen.items():
        note = f"{PROCESSES} processes, section 1 ms"
        handoffs = [median(crowd.handoffs) * 1e3 for crowd in crowds if crowd.handoffs]
        waits = [percentile(crowd.waits, 0.99) * 1e3 for crowd in crowds]
        found += [
            Figure.median("ST", f"entries/s: {label}", [crowd.rate for crowd in crowds], "1/s", note=note),
            Figure.median("ST", f"hand-off p50: {label}", handoffs, "ms", note=note),
            Figure.median("ST", f"wait p99: {label}", waits, "ms", note=note),
            Figure.median("ST", f"least against most: {label}", [crowd.evenness for crowd in crowds], note=note),
        ]
    return found
