"""What is nested: histories by hand."""

from __future__ import annotations

from .story import fault, found, miss, stay

OUTER = stay(1, "lock", "a", 1, 9, 5, op=91)


def test_it_has_what_its_task_has() -> None:
    inner = stay(1, "lock", "a", 2, 3, 5, op=92, outer=91)
    assert not found(OUTER, inner, stay(1, "lock", "a", 2.5, 2.9, 5, outer=92))
    assert "another fence" in found(OUTER, stay(1, "lock", "a", 2, 3, 6, outer=91))["reentrant mutex"].words


def test_it_does_not_wait_for_itself() -> None:
    inner = miss(1, "lock", "a", 2, 3, "AcquireTimeout", outer=91)
    assert "waited for" in found(OUTER, inner)["reentrant mutex"].words
    assert not found(OUTER, inner, fault(2, 2.5))
