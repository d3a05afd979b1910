"""The public names and signatures, frozen: a change here is a change for users, so it belongs in the changelog.

To accept a change: `python -m tests.unit.test_public_api`.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import aiolock
import aiolock.events
import aiolock.recipes
import aiolock.redisson
import aiolock.sync
import aiolock.sync.recipes
import aiolock.sync.redisson
import aiolock.testing
from aiolock.record import Record

MODULES = (
    aiolock,
    aiolock.events,
    aiolock.recipes,
    aiolock.redisson,
    aiolock.sync,
    aiolock.sync.recipes,
    aiolock.sync.redisson,
    aiolock.testing,
)
FROZEN = Path(__file__).with_name("public_api.txt")
HAND_MADE = ("__init__", "__await__", "__aenter__", "__aexit__")
FACTORIES_ONLY = (
    "Acquisition",
    "Attempt",
    "Election",
    "FairLock",
    "GuardedWrites",
    "Latch",
    "Lease",
    "Lock",
    "Once",
    "Owner",
    "RCountDownLatch",
    "RFairLock",
    "RFencedLock",
    "RLock",
    "RPermitExpirableSemaphore",
    "RReadWriteLock",
    "RReadWriteLockSide",
    "RWLock",
    "RWLockSide",
    "Semaphore",
)
"""Classes that users never create: we may change their constructors."""


def surface() -> str:
    return "\n".join(line for module in MODULES for line in of_module(module)) + "\n"


def of_module(module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__):
        path, thing = f"{module.__name__}.{name}", getattr(module, name)
        if inspect.isfunction(thing):
            yield f"{kind(thing)}{path}{inspect.signature(thing)}"
        else:
            yield from of_class(path, thing)


def members(cls: type) -> dict[str, Any]:
    """What a class has, including what it has from bases that are not public themselves."""
    inherited = [base for base in cls.__mro__[1:] if base.__module__.startswith(("aiolock.primitives", "aiolock.sync"))]
    return {name: member for base in (*reversed(inherited), cls) for name, member in vars(base).items()}


def of_class(path: str, cls: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in cls.__bases__)
    yield f"{path}({bases})"
    if issubclass(cls, Record):
        yield f"    made of {', '.join(cls.__match_args__)}"
    if issubclass(cls, enum.Enum):
        yield from (f"    {member.name} = {member.value!r}" for member in cls)
        return
    for name, member in sorted(members(cls).items()):
        if name.startswith("_") and name not in HAND_MADE:
            continue
        if name == "__init__" and cls.__name__ in FACTORIES_ONLY:
            continue
        if isinstance(member, property):
            yield f"    {name}: {inspect.signature(member.fget).return_annotation}"  # type: ignore[arg-type]
        elif inspect.isfunction(member):
            yield f"    {kind(member)}{name}{inspect.signature(member)}"
    for name, annotation in sorted(inspect.get_annotations(cls).items()):
        if not name.startswith("_"):
            yield f"    {name}: {getattr(annotation, '__forward_arg__', annotation)}"


def kind(function: Any) -> str:
    return "async " if inspect.iscoroutinefunction(function) else ""


def test_the_public_api_is_frozen() -> None:
    assert surface() == FROZEN.read_text(encoding="utf-8")


def test_all_is_complete() -> None:
    for module in MODULES:
        assert all(hasattr(module, name) for name in module.__all__)  # some are imported on first use
        collects = hasattr(module, "__path__")  # a package offers what its modules define
        public = {
            name
            for name, thing in vars(module).items()
            if not name.startswith("_") and not isinstance(thing, ModuleType)
            if collects or getattr(thing, "__module__", "") == module.__name__
        }
        assert public == set(module.__all__)


def test_everything_public_is_documented() -> None:
    undocumented = []
    for module in MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            if not thing.__doc__:
                undocumented.append(name)
            for part, member in vars(thing).items():
                described = member.__doc__ if inspect.isfunction(member) or isinstance(member, property) else "data"
                if not part.startswith("_") and not described:
                    undocumented.append(f"{name}.{part}")
    inherited = {
        "open",
        "run",
        "post",
        "subscribe",
        "unsubscribe",
        "aclose",
        "now",
        "call_at",
    }  # documented in the protocols
    assert [name for name in undocumented if name.rpartition(".")[2] not in inherited] == []


async def test_methods_for_event_loops_are_not_offered(locks: aiolock.LockManager) -> None:
    """To anyone who completes names in a shell. Kept by OnDemand.__dir__."""
    acquisition = locks.lock("a").acquire()
    assert [name for name in dir(acquisition) if not name.startswith("_")] == []
    lease = await acquisition
    assert not {"hold", "calls", "guard", "task", "give_up"} & set(dir(lease))
    assert [name for name in dir(lease.release()) if not name.startswith("_")] == []


if __name__ == "__main__":
    FROZEN.write_text(surface(), encoding="utf-8")
