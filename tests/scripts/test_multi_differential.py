"""The multi lock's Lua and its twin, mixed with the plain lock's on the same names, answer and leave the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aiolock.scripts.base import Call
from aiolock.scripts.multi import MultiCalls, renew
from tests.support.scripting import KEYS, Lock, LuaSide

from .test_differential import (
    FLOOR,
    GRANT,
    TTLS,
    Step,
    World,
    depths,
    fences,
    floors,
    metadata,
    owners,
    step,
    steps,
    ttls,
)

whole = st.booleans()
"""Both names, or only the step's."""
multi_renewals = st.lists(st.tuples(st.integers(0, 1), whole, owners, fences, ttls), max_size=3)
multi_steps = st.one_of(
    step("multi acquire", whole, owners, ttls, floors, metadata, depths, fences),
    step("multi acquire", st.just(True), owners, ttls, floors, metadata, st.just(1), st.just("none")),
    step(
        "multi release",
        whole,
        owners,
        ttls,
        st.integers(0, 2),
        st.sampled_from(["clean", "undone", "dirty"]),
        st.booleans(),
    ),
    step("multi renew", multi_renewals),
    step("multi info", whole),
)


class MultiWorld(World):
    """Both sides of both families, on the same names."""

    def multi(self, name: int, whole: bool) -> MultiCalls:
        locks = self.locks if whole else [self.locks[name]]
        return MultiCalls(KEYS, [lock.name for lock in locks])

    def request(self, step: Step, lock: Lock) -> Call[Any] | None:
        match step.kind, step.facts:
            case "multi acquire", (whole, owner, ttl, floor, about, depth, fence):
                multi = self.multi(step.name, whole)
                return multi.acquire(owner, ttl, floor, about, depth, self.fence(lock, fence))
            case "multi release", (whole, owner, ttl, left, ending, tainted):
                return self.multi(step.name, whole).release(owner, ttl, left, ending, tainted)
            case "multi renew", (batch,):
                return renew(
                    self.multi(name, whole).renewal(owner, self.fence(self.locks[name], fence), ttl)
                    for name, whole, owner, fence, ttl in batch
                )
            case "multi info", (whole,):
                return self.multi(step.name, whole).info()
        return super().request(step, lock)


BOTH = Step("multi acquire", 0, (True, "a:1", TTLS[1], FLOOR, "me", 1, "none"))
AGAIN = Step("again", 0, (0,))
END = Step("multi release", 0, (True, "a:1", TTLS[0], 0, "clean", True))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sequence=st.lists(st.one_of(multi_steps, steps), min_size=1, max_size=25))
@example(sequence=[BOTH, AGAIN, END, AGAIN, BOTH])
@example(sequence=[BOTH, Step("delete", 1, ("key",)), AGAIN, END])
@example(sequence=[BOTH, Step("spoil", 0, ("key",)), END])
@example(sequence=[GRANT, BOTH, Step("multi renew", 0, ([(0, True, "a:1", "current", TTLS[2])],))])
def test_the_lua_does_what_its_twin_does(sides: Callable[[], LuaSide], sequence: list[Step]) -> None:
    world = MultiWorld(sides())
    for each in sequence:
        world.take(each)
        world.compare()
