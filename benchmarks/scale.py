"""How much is measured: everything, or a quick look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes and durations of a run; seconds unless the name says otherwise.

    Attributes:
        rounds: interleaved rounds, of which the median counts; one more comes first and is thrown away.
        pairs: acquires and releases of one task in one round.
        crowd_pairs: acquires and releases of each of 200 tasks.
        contended: how long tasks contend in one round, in one process.
        handoffs: how long tasks contend in one round, across processes.
        handoff_rounds: the rounds of `handoffs`.
        outlasting: how long tasks contend while sections outlast the ttl of 1 s.
        waiting: how long 200 waiters wait.
        ttl: of the leases that are held; a period is a third of it.
        leases: how many leases are held.
        growth: numbers of names, waiters and leases.
        processes: numbers of processes that wait on one name.
        window: how long these are watched.
        kills: how often the first waiter is killed.
        loss_rounds: how many acquires, and how many releases, are cancelled.
    """

    rounds: int
    pairs: int
    crowd_pairs: int
    contended: float
    handoffs: float
    handoff_rounds: int
    outlasting: float
    waiting: float
    ttl: float
    leases: int
    growth: tuple[int, ...]
    processes: tuple[int, ...]
    window: float
    kills: int
    loss_rounds: int

    @classmethod
    def of(cls, quick: bool) -> Scale:
        """Return the scale of a quick or a whole run."""
        return QUICK if quick else WHOLE


WHOLE = Scale(
    rounds=7,
    pairs=2_000,
    crowd_pairs=20,
    contended=1.5,
    handoffs=2.5,
    handoff_rounds=5,
    outlasting=4.0,
    waiting=30.0,
    ttl=30.0,
    leases=10_000,
    growth=(1, 10, 100, 1_000, 10_000),
    processes=(2, 8, 16, 32),
    window=3.0,
    kills=5,
    loss_rounds=60,
)
QUICK = Scale(
    rounds=3,
    pairs=300,
    crowd_pairs=5,
    contended=0.4,
    handoffs=0.7,
    handoff_rounds=1,
    outlasting=2.0,
    waiting=2.0,
    ttl=3.0,
    leases=10_000,
    growth=(1, 10, 100, 1_000),
    processes=(2, 6),
    window=0.5,
    kills=1,
    loss_rounds=12,
)
