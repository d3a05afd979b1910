"""Draws a plan from a seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from .plan import Fault, Moment, Plan, Step, Worker

HOLDING = ("lock", "lock", "lock", "fair", "fair", "read", "write", "permits", "multi")
HOWS = ("guard",) * 6 + (
    "try", "try", "plain", "entered", "nest", "nest", "share", "fixed", "renew", "limited", "shield", "block", "detach",
    "part",
)  # fmt: skip
KEPT = ("lock", "fair", "read", "write", "permits")
IN_ORDER = ("fair", "read", "write", "permits")
REENTRANT = ("lock", "fair", "read", "write", "multi")
ON_REDISSON = {
    "fair": ("redisson fair", "f"),
    "read": ("redisson read", "r"),
    "write": ("redisson write", "r"),
    "permits": ("redisson permits", "p"),
}
"""What a primitive becomes there, and its name: the wire has one kind for each; all others are locks."""
FAULTS = (
    ("cut",) * 6 + ("lose_reply",) * 4 + ("hold",) * 3 + ("stall",) * 4 + ("cancel",) * 6
    + ("die", "die", "flush", "forget_scripts", "restart", "restart_empty", "busy", "busy", "refuse", "jump")
)  # fmt: skip


GHOSTS = ("cut", "cut", "cut", "cut", "cancel", "cancel")


def draw(seed: int | str) -> Plan:
    """Return the plan of a seed; one in eight is about hand-offs, one in eight about blocked loops, one in sixteen each
    about a queue that is lost, names that stay taken after their release, jobs, and priorities.

    That of "redisson:7" is that of 7, in which each primitive is Redisson's; that of "rows:7" is that of 7, in a
    database.
    """
    wire, _, number = str(seed).rpartition(":")
    if wire == "rows":
        return replace(draw(int(number)), store="rows")
    if wire == "redisson":
        plan = draw(int(number))
        workers = tuple(replace(worker, steps=tuple(map(_on_redisson, worker.steps))) for worker in plan.workers)
        return replace(plan, workers=workers)
    plan, dice = _draw(seed), Random(f"hand-offs {seed}")
    chance = dice.random()
    if chance < 1 / 4:
        return _handing_on(plan, dice) if chance < 1 / 8 else _blocking(plan, dice)
    if 12 / 16 < chance <= 7 / 8:
        return _working(plan, dice) if chance > 13 / 16 else _hurrying(plan, dice)
    if chance > 7 / 8:
        return _losing_the_queue(plan, dice) if chance > 15 / 16 else _keeping(plan, dice)
    return plan


def _on_redisson(step: Step) -> Step:
    if step.what == "force":
        return replace(step, what="redisson force", name=Random(str(step)).choice("aabffrr"))
    if step.what not in HOLDING:
        return step
    kind, name = ON_REDISSON.get(step.what, ("redisson", step.name[:1]))
    if step.how == "kept":
        return replace(step, what=kind, name=name, how="guard")
    step = replace(step, priority=0)
    how = "plain" if step.how == "detach" or (step.how == "part" and step.what != "permits") else step.how
    return replace(step, what=kind, name=name, how=how)


def _blocking(plan: Plan, dice: Random) -> Plan:
    """Blocks begin by blocking the loop, one name for all, and what follows a grant is late, refused or lost."""

    def step(one: Step) -> Step:
        how = "block" if one.how == "guard" and dice.random() < 0.25 else one.how
        seconds = dice.choice((0.0, 0.01, 0.5, 1.5, 4.0)) if dice.random() < 0.3 else min(one.seconds, 1.0)
        what = one.what if one.what in ("lock", "fair") else "lock"
        ttl = dice.choice((None, None, None, 0.3, 1.0))
        return Step(what, "a", how if how != "detach" else "plain", seconds, one.timeout, ttl=ttl)

    workers = tuple(replace(worker, steps=tuple(step(one) for one in worker.steps)) for worker in plan.workers)
    kinds = ("cut", "cut", "lose_reply", "hold", "hold", "stall", "stall", "forget_scripts", "busy")
    faults = []
    for _ in range(8):
        at = (dice.choice(("before", "after", "sent", "sent")), dice.randrange(3, 90))
        seconds = round(dice.choice((0.0, 0.3, 1.0, 3.0, 6.0)) * dice.random(), 3)
        faults.append(Fault(dice.choice(kinds), at, -1, seconds, dice.randrange(6)))
    ttl, liveness = dice.choice((3.0, 6.0)), dice.choice((0.5, 1.0))
    return replace(plan, workers=workers, faults=tuple(faults), ttl=ttl, margin=None, liveness=liveness)


def _keeping(plan: Plan, dice: Random) -> Plan:
    """Many names stay taken for a while after their release."""

    def step(one: Step) -> Step:
        kept = one.what in KEPT and one.how in ("guard", "try", "plain", "nest") and dice.random() < 0.6
        return replace(one, how="kept", seconds=min(one.seconds, plan.ttl / 4)) if kept else one

    workers = tuple(replace(worker, steps=tuple(step(one) for one in worker.steps)) for worker in plan.workers)
    return replace(plan, workers=workers)


def _hurrying(plan: Plan, dice: Random) -> Plan:
    """Some wait with a priority, wherever tasks have a place of their own; half of the time, all for one fair lock."""
    alone = dice.random() < 0.5

    def step(one: Step) -> Step:
        if alone and one.what in HOLDING:
            one = Step("fair", seconds=round(min(one.seconds, 0.3), 4), timeout=one.timeout)
        return replace(one, priority=dice.choice((0, 0, 1, 1, 2, 100))) if one.what in IN_ORDER else one

    workers = tuple(replace(worker, steps=tuple(map(step, worker.steps))) for worker in plan.workers)
    plan = replace(plan, workers=workers)
    calm = alone and dice.random() < 0.8
    return replace(plan, faults=(), spikes=0.0, request_timeout=max(plan.request_timeout, 1.0)) if calm else plan


def _working(plan: Plan, dice: Random) -> Plan:
    """Calls that join; jobs that are reserved from enqueue to end; or multi locks that take several pieces."""
    about = dice.choice(("join", "reserve", "multi"))

    def step(one: Step) -> Step:
        if one.what not in HOLDING:
            return one
        seconds = round(min(one.seconds, plan.ttl / 2), 4)
        if about == "multi":
            name = dice.choice(("abcxyz", "abkxy", "xz", "a", "x"))
            if len(name) == 1:
                return replace(one, what="lock", name=name, seconds=seconds)
            how = one.how if one.how not in ("detach", "kept", "part") else "guard"
            return replace(one, what="multi", name=name, how=how, seconds=seconds)
        if about == "join":
            return Step("join", "j", seconds=seconds, timeout=one.timeout, n=one.n)
        what = dice.choice(("reserve", "job", "job"))
        return Step(what, "t", seconds=seconds, n=one.n, ttl=dice.choice((0.3, plan.ttl, plan.ttl * 2)))

    workers = tuple(replace(worker, steps=tuple(map(step, worker.steps))) for worker in plan.workers)
    calm = dice.random() < 0.3  # then more is certain
    return replace(
        plan,
        workers=workers,
        faults=() if calm else plan.faults,
        spikes=0.0 if calm else plan.spikes,
        ttl=max(plan.ttl, 2.0),
    )


def _losing_the_queue(plan: Plan, dice: Random) -> Plan:
    """Tasks of several processes wait for one fair lock, and come again; nothing else goes wrong."""
    workers = tuple(
        Worker(
            at % 2,
            round(dice.random() * 0.2, 4),
            (Step("fair", seconds=dice.choice((0.1, 0.3))),) * dice.choice((2, 4)),
        )
        for at in range(dice.choice((6, 10, 16)))
    )
    lost = Fault("lose_queue", round(0.3 + dice.random(), 4))
    return replace(plan, processes=2, workers=workers, faults=(lost,), ttl=3.0, latency=0.001, spikes=0.0, kill=True)


def _handing_on(plan: Plan, dice: Random) -> Plan:
    """Tasks of two processes pass one lock on, and answers are late or lost: turns end before their time is known."""
    workers = tuple(
        Worker(
            worker.process % 2,
            worker.starts,
            tuple(Step("lock", seconds=dice.choice((0.0, 0.01, 0.1, 0.3))) for _ in worker.steps),
        )
        for worker in plan.workers
    )
    faults = []
    for what in ("cut", "lose_reply", "lose_reply", "hold", "hold"):
        seconds = round(dice.random() * 0.4, 4) if what == "hold" else 0.0
        faults.append(Fault(what, ("after", dice.randrange(3, 40)), -1, seconds))
    return replace(
        plan, processes=2, workers=workers, faults=tuple(faults), liveness=0.5, handoff_limit=0, request_timeout=1.0
    )


def _draw(seed: int | str) -> Plan:
    """Few names and few kinds, so that tasks meet."""
    dice = Random(f"plan {seed}")
    ttl = dice.choice((1.0, 1.0, 2.0, 3.0, 6.0))
    processes = dice.choice((1, 2, 2, 2, 3, 3, 4))
    kinds = dice.sample(HOLDING, dice.choice((1, 2, 2, 3)))
    latch = dice.random() < 0.15
    ghosts = dice.random() < 0.2  # requests of dead connections run late
    workers = tuple(
        Worker(
            dice.randrange(processes),
            round(dice.random() ** 2 * dice.choice((0.01, 0.5, ttl)), 4),
            tuple(_step(dice, kinds, ttl, latch, ghosts) for _ in range(dice.choice((1, 2, 3, 4, 6)))),
        )
        for _ in range(dice.choice((2, 4, 5, 6, 8)))
    )
    calm = not ghosts and dice.random() < 0.15
    draw_fault = _ghost if ghosts else _fault
    count = 0 if calm else dice.choice((1, 2, 3, 4, 6))
    faults = tuple(draw_fault(dice, processes, len(workers), ttl) for _ in range(count))
    return Plan(
        noise=str(seed),
        processes=processes,
        workers=workers,
        faults=faults,
        ttl=ttl,
        margin=dice.choice((None, None, None, ttl / 20)),
        liveness=dice.choice((0.5, 1.0, 3.0)),
        request_timeout=dice.choice((0.3, 1.0, 2.0)),
        recheck=dice.choice((0.5, 1.0, 5.0)),
        handoff_limit=dice.choice((0, 1, 2, 16)),
        latency=dice.choice((0.0001, 0.001, 0.001, 0.005, 0.02)),
        spikes=0.0 if calm else dice.choice((0.0, 0.0, 0.01, 0.05)),
        split=dice.choice((0.0, 0.1, 0.5)),
        drift=dice.choice((0.0, 0.0, 0.002, -0.002)),
        kill=not ghosts and dice.random() < 0.7,
        window=dice.choice((1 << 16, 1 << 16, 4096)),
    )


def _step(dice: Random, kinds: list[str], ttl: float, latch: bool, ghosts: bool) -> Step:
    seconds = dice.choice((0.0, 0.02)) if ghosts else _seconds(dice, ttl)
    chance = dice.random()
    if latch and chance < 0.5:
        return Step(dice.choice(("count", "count", "wait")), "l", timeout=round(dice.random() * 2 * ttl, 3))
    if chance < 0.05:
        return Step("pause", seconds=round(dice.random() * ttl, 3))
    if chance < 0.07:
        return Step("info", "a")
    if chance < 0.08:
        return Step("force", "a")
    if chance < 0.09:
        return Step("close", seconds=round(dice.random() * ttl, 3))
    if chance < 0.12:
        return Step("resume", "a", seconds=_seconds(dice, ttl))
    what, how = dice.choice(kinds), dice.choice(HOWS)
    if how in ("nest", "share") and what not in REENTRANT:
        how = "guard"
    if how == "detach" and what not in ("lock", "fair"):
        how = "plain"
    name = (
        dice.choice(("ab", "bc", "abc"))
        if what == "multi"
        else dice.choice("aaab")
        if what in ("lock", "fair")
        else "r"
    )
    timeout = dice.choice((None, None, None, 0.0, round(dice.random() * 0.2, 3), round(dice.random() * ttl, 3)))
    lasting = dice.choice((None, None, None, max(0.4, ttl * 0.15), ttl / 3, ttl * 1.5))
    return Step(what, name, how, seconds, timeout, dice.choice((1, 1, 2, 3)), lasting)


def _seconds(dice: Random, ttl: float) -> float:
    return round(dice.choice((0.0, 0.001, 0.02, 0.1, dice.random() * ttl * 0.5, dice.random() * ttl * 1.5)), 4)


def _ghost(dice: Random, processes: int, workers: int, ttl: float) -> Fault:
    """A connection dies under a request, which runs late; or a task is cancelled."""
    what, late = dice.choice(GHOSTS), round(dice.random() * ttl * 0.8, 4)
    return Fault(what, ("sent", dice.randrange(2, 60)), -1, late, dice.randrange(2 * workers))


def _fault(dice: Random, processes: int, workers: int, ttl: float) -> Fault:
    what = dice.choice(FAULTS)
    at: Moment = round(dice.random() * 2 * ttl, 4)
    target = dice.randrange(processes)
    if dice.random() < 0.7:
        side = dice.choice(("before", "after", "after", "sent", "sent"))
        at = (side, dice.randrange(1, 60))
        target = dice.choice((-1, -1, target))
    seconds = dice.choice((0.0, 0.01, dice.random() * 0.3, dice.random() * ttl, dice.random() * ttl * 2))
    if what == "jump":
        seconds = dice.choice((0.5, ttl, ttl * 2))
    return Fault(what, at, target, round(seconds, 4), dice.randrange(2 * workers))
