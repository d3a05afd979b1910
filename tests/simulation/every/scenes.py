"""The scenes: each is about one thing that locks do."""

from __future__ import annotations

from dataclasses import replace

from ..plan import Plan, Step, Worker
from ..world import FIXED

TTL = 1.0
"""Seconds that all locks of a scene last."""


def _scene(*workers: tuple[int, float, list[Step]]) -> Plan:
    return Plan(
        FIXED,
        processes=2,
        workers=tuple(Worker(process, starts, tuple(steps)) for process, starts, steps in workers),
        ttl=TTL,
        liveness=0.5,
        request_timeout=0.3,
        recheck=0.5,
        abandoned=0.0,
        stays=2 * TTL,
        reopens=0.01,
    )


def _held(seconds: float = 0.02, what: str = "lock", name: str = "a", how: str = "guard") -> Step:
    return Step(what, name, how, seconds)


READ, WRITE = _held(what="read", name="r"), _held(what="write", name="r")
TWO, ONE = replace(_held(what="permits", name="r"), n=2), _held(what="permits", name="r")
COUNTS = [Step("count", "l"), Step("count", "l")]

SCENES: dict[str, Plan] = {
    "free": _scene((0, 0.0, [_held()])),
    "wait": _scene((0, 0.0, [_held()]), (1, 0.01, [_held()])),
    "local": _scene((0, 0.0, [_held()]), (0, 0.005, [_held()]), (1, 0.01, [_held()])),
    "fair": _scene(*((at % 2, at * 0.005, [_held(what="fair")]) for at in range(3))),
    "rw": _scene((0, 0.0, [READ]), (1, 0.005, [WRITE]), (0, 0.01, [READ])),
    "permits": _scene((0, 0.0, [TWO]), (1, 0.005, [TWO]), (0, 0.01, [ONE])),
    "multi": _scene((0, 0.0, [_held(what="multi", name="ab")]), (1, 0.005, [_held(what="multi", name="bc")])),
    "nested": _scene((0, 0.0, [_held(how="nest")]), (1, 0.005, [_held(how="nest")])),
    "ticket": _scene((0, 0.0, [_held(how="detach")]), (1, 0.005, [Step("resume", timeout=3 * TTL), _held()])),
    "forced": _scene((0, 0.0, [_held()]), (1, 0.005, [_held(0.05)]), (0, 0.025, [Step("force"), _held()])),
    "asked": _scene((0, 0.0, [_held(0.1, how="yield")]), (1, 0.015, [Step("ask", seconds=0.04), _held()])),
    "renewal": _scene((0, 0.0, [_held(0.8)]), (1, 0.6, [_held()])),
    "giving_up": _scene((0, 0.0, [_held(0.05)]), (1, 0.005, [replace(_held(), timeout=0.02)]), (1, 0.01, [_held()])),
    "close": _scene((0, 0.0, [_held()]), (1, 0.005, [_held()]), (1, 0.01, [Step("close", seconds=0.02), _held()])),
    "blocked": _scene((0, 0.0, [_held(1.3, how="block")]), (1, 0.01, [_held()])),
    "latch": _scene(
        (0, 0.0, COUNTS), (1, 0.005, [Step("wait", "l", timeout=3 * TTL)]), (1, 0.01, [Step("count", "l")])
    ),
    "condition": _scene((0, 0.0, [Step("await")]), (1, 0.01, [Step("notify")])),
    "once": _scene((0, 0.0, [Step("once", seconds=0.02)]), (1, 0.005, [Step("once", seconds=0.02), _held()])),
    "redisson": _scene(*((at // 2, at * 0.005, [_held(what="redisson")]) for at in range(3))),
    "redisson_fair": _scene(*((at % 2, at * 0.005, [_held(what="redisson fair", name="f")]) for at in range(3))),
    "redisson_rw": _scene(
        *(
            (at % 2, at * 0.005, [_held(what=f"redisson {side}", name="r")])
            for at, side in enumerate(("read", "write", "read"))
        )
    ),
    "redisson_permits": _scene(
        *(
            (at % 2, at * 0.005, [replace(_held(what="redisson permits", name="p"), n=n)])
            for at, n in enumerate((2, 2, 1))
        )
    ),
}
"""Each with two processes, and no faults."""
GHOSTS = ("wait", "local", "giving_up", "multi", "ticket")
SCENES |= {f"{name}-ghosts": replace(SCENES[name], kill=False, abandoned=0.5 * TTL) for name in GHOSTS}
"""Requests of dead connections may run late."""
SCENES |= {f"{name}-hasty": replace(SCENES[name], stays=0.0) for name in ("free", "wait", "local")}
"""Each process closes its manager when its work is done."""
QUEUED = (
    *("free", "wait", "local", "fair", "rw", "permits", "nested", "forced", "asked", "renewal", "giving_up", "close"),
    "blocked",
)
IN_QUEUES = {f"{name}-queues": replace(SCENES[name], store="queues") for name in QUEUED}
"""Locks in a store that keeps queues, as etcd does."""
IN_ROWS = {
    f"{name}-rows": replace(plan, store="rows")
    for name, plan in SCENES.items()
    if "-" not in name and not name.startswith("redisson")
}
"""Locks in a database."""
SCENES |= IN_QUEUES | IN_ROWS
OTHER_GHOSTS = ("wait-queues", "local-queues", "wait-rows")
SCENES |= {f"{name}-ghosts": replace(SCENES[name], abandoned=0.5 * TTL) for name in OTHER_GHOSTS}
