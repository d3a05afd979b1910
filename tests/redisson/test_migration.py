"""The steps of the page by which a service moves from Redisson's lock to ours."""

from __future__ import annotations

import itertools

import redis

from .conftest import TTL_MS
from .peer import Peer, start_python

TIMES = 300
STEPS = ("lock", "both", "ours")
"""What each deploy of the service in Python takes."""


def test_a_counter_is_exact_at_each_step(java: Peer, python: Peer, shared_url: str, link: redis.Redis) -> None:
    """Java beside the first; then, while each is deployed, processes as before beside new ones."""
    sides = [((java, "lock"), (python, "lock"))]
    with start_python(shared_url, TTL_MS) as other:
        sides += [((python, before), (other, after)) for before, after in itertools.pairwise(STEPS)]
        for one in sides:
            for done in [side.ask(kind, "count", f"{kind}:a", "counter", TIMES) for side, kind in one]:
                done.result(120)
    assert link.get("counter") == str(2 * TIMES * len(sides))
    link.delete(*link.scan_iter("aiolock:lock:*"))  # what ours remembers for a while
