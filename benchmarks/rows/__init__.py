"""The rows that are judged, and the function that measures each."""

from __future__ import annotations

from dataclasses import dataclass

from ..crew import PATIENCE


@dataclass(frozen=True, slots=True)
class Row:
    """Something to measure.

    Attributes:
        key: its name on the command line.
        title: what it is.
        call: the function that measures it, `module:function`; it runs in a process of its own.
        both_loops: measured on uvloop too, if that is installed.
        quick: measured in a quick run too.
        patience: seconds that it may take.
        seldom: measured only if it is named, as it takes a quarter of an hour or more.
    """

    key: str
    title: str
    call: str
    both_loops: bool = False
    quick: bool = True
    patience: float = PATIENCE
    seldom: bool = False

    @property
    def label(self) -> str:
        """What a report calls it."""
        return f"row {self.key}, {self.title}"


ROWS = [
    Row("A", "uncontended, one task (A, A′)", "benchmarks.rows.uncontended:one_task", True),
    Row("B", "uncontended, 200 tasks, 200 names", "benchmarks.rows.uncontended:many_tasks", True),
    Row("C", "contended in one process", "benchmarks.rows.contended:one_name", True),
    Row("D", "contended across processes", "benchmarks.rows.handoff:across_processes", True),
    Row("DU", "uneven crowds, a slow line (part of D)", "benchmarks.rows.uneven:crowds_and_lines"),
    Row("K", "the first in line killed", "benchmarks.rows.killed_waiter:next_entry"),
    Row("S", "what the server runs", "benchmarks.rows.server:commands"),
    Row("E", "waiting", "benchmarks.rows.waiting:idle"),
    Row("F", "holding", "benchmarks.rows.holding:held"),
    Row("G", "growth", "benchmarks.rows.growth:growth"),
    Row("M", "memory (part of G)", "benchmarks.rows.memory:bytes_each"),
    Row("GD", "growth of row D", "benchmarks.rows.handoff:growing", quick=False),
    Row("GE", "growth of row E", "benchmarks.rows.waiting:growing", quick=False),
    Row("L", "uncontended, on a cluster of three masters", "benchmarks.rows.cluster:pairs"),
    Row("H", "many processes", "benchmarks.rows.many_processes:commands"),
    Row("I", "a slow network", "benchmarks.rows.slow_network:delayed"),
    Row("ST", "the stores of locks, side by side", "benchmarks.rows.stores:side_by_side", quick=False),
    Row("PG", "in PostgreSQL, beside its own ways", "benchmarks.rows.databases:in_postgres", quick=False),
    Row("MY", "in MariaDB, beside its own ways", "benchmarks.rows.databases:in_mysql", quick=False),
    Row(
        "PS",
        "in PostgreSQL, beside an old snapshot",
        "benchmarks.rows.snapshot:in_postgres",
        quick=False,
        patience=3600,
        seldom=True,
    ),
    Row("MS", "in MariaDB, beside an old snapshot", "benchmarks.rows.snapshot:in_mysql", quick=False, seldom=True),
    Row("PL", "in PostgreSQL, beside many that listen", "benchmarks.rows.listeners:in_postgres", quick=False),
    Row("ML", "in MariaDB, beside many that listen", "benchmarks.rows.listeners:in_mysql", quick=False),
    Row("JV", "wake-ups on Redisson's wire, beside its own", "benchmarks.rows.redisson:wake_ups", quick=False),
    Row("P", "the other primitives, uncontended", "benchmarks.rows.primitives:uncontended"),
    Row(
        "PC",
        "the other primitives, contended in one process",
        "benchmarks.rows.contended:other_primitives",
        quick=False,
    ),
    Row("PD", "the other primitives, across processes", "benchmarks.rows.handoff:other_primitives", quick=False),
]
