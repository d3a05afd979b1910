"""The synchronous front offers what the asynchronous one offers, under the same names: no drift."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import aiolock
import aiolock.sync

from .conftest import in_memory

EXPLAINED = {
    "Lease.shielded": "nothing cancels a thread's clean-up",
    "LockManager.aclose": "for contextlib.aclosing, which awaits it; contextlib.closing calls close()",
    "LockOptions.cancel_on_loss": "a thread cannot be cancelled",
    "LockOptions.on_lost": "instead",
    "Lease.wait_lost(timeout)": "there is no asyncio.timeout() for threads",
    "Lease.wait_wanted(timeout)": "there is no asyncio.timeout() for threads",
}
RETURNS = {
    "Acquisition[Lease]": "Lease",
    "Attempt": "Lease | None",
    "Releasing": "None",
    "predicate: Callable[[], T | Awaitable[T]]": "predicate: Callable[[], T]",
}
"""What the asynchronous side says, and how a thread has it."""
NOT_METHODS = ("contention",)


def members(cls: type) -> dict[str, object]:
    """What users see of a class."""
    inherited = [base for base in cls.__mro__ if base.__module__.startswith("aiolock")]
    found = {name: member for base in reversed(inherited) for name, member in vars(base).items()}
    return {
        name: member
        for name, member in found.items()
        if not name.startswith("_") and name not in NOT_METHODS and not inspect.ismemberdescriptor(member)
    }


def shape(member: object) -> str:
    """Its parameters and what it returns, as text; a property's type."""
    if isinstance(member, property):
        return f"property {inspect.signature(member.fget).return_annotation}"  # type: ignore[arg-type]
    if isinstance(member, classmethod):
        return f"class {inspect.signature(member.__func__)}"
    assert inspect.isfunction(member)
    text = str(inspect.signature(member)).replace("'", "")
    for asynchronous, synchronous in RETURNS.items():
        text = text.replace(asynchronous, synchronous)
    return text


def test_the_surfaces_agree() -> None:
    """Broken by a method or parameter of one side that the other has not."""
    differences: set[str] = set()
    for name in aiolock.sync.__all__:
        ours, theirs = getattr(aiolock.sync, name), getattr(aiolock, name)
        if name == "LockOptions":
            different = ours.__annotations__.keys() ^ theirs.__annotations__.keys()
            differences |= {f"{name}.{option}" for option in different}
            continue
        if not inspect.isclass(ours):
            if list(inspect.signature(ours).parameters) != list(inspect.signature(theirs).parameters):
                differences.add(name)
            continue
        mine, other = members(ours), members(theirs)
        differences |= {f"{name}.{each}" for each in mine.keys() ^ other.keys()}
        for each in mine.keys() & other.keys():
            if shape(mine[each]) != shape(other[each]):
                more = set(re.findall(r"(\w+):", shape(mine[each]))) ^ set(re.findall(r"(\w+):", shape(other[each])))
                differences.add(f"{name}.{each}({', '.join(sorted(more)) or shape(mine[each])})")
    assert differences == set(EXPLAINED)


def test_every_kind_of_lock_has_its_front() -> None:
    """Broken by a class with blocking methods that `aiolock.sync` has not."""
    asynchronous = {
        name
        for name in aiolock.__all__
        if inspect.isclass(thing := getattr(aiolock, name))
        and any(inspect.iscoroutinefunction(member) for member in members(thing).values())
    }
    assert asynchronous - {"Acquisition", "Attempt"} <= set(aiolock.sync.__all__)


def test_a_keyword_that_threads_do_not_have() -> None:
    """Kept by `split()`."""
    locks = in_memory()
    told = ""
    try:
        locks.lock("a", cancel_on_loss=True)  # type: ignore[call-arg]
    except TypeError as error:
        told = str(error)
    assert "on_lost=" in told


@pytest.mark.parametrize("on_lost", ["kill", 0, []])
def test_what_on_lost_calls_is_a_function(on_lost: Any) -> None:
    """Or nobody hears of a loss. Kept by `split()`."""
    with pytest.raises(aiolock.ConfigurationError, match="on_lost must be a function"):
        in_memory().lock("a", on_lost=on_lost)
