"""The build fails unless the reference has an entry for each public name of the package, and each of its members."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from docstrings import CONSTRUCTED
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import aiolock
import aiolock.events
import aiolock.recipes
import aiolock.redisson
import aiolock.sync
import aiolock.sync.recipes
import aiolock.sync.redisson
import aiolock.testing
from aiolock.backends.base import Backend
from aiolock.core.ondemand import OnDemand
from aiolock.primitives.base import Primitive

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
INNER: dict[type, set[str]] = {
    OnDemand: {*vars(OnDemand)},
    Primitive: {"contention"},
    aiolock.testing.MemoryBackend: {*vars(Backend), *inspect.get_annotations(Backend)} - {"clock"},
    aiolock.testing.VirtualClock: {"call_at"},
}
"""Members without an underscore that only this package, or an event loop, uses."""


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What a module offers."""
    return ((f"{module.__name__}.{name}", getattr(module, name)) for name in module.__all__)


def members(cls: type) -> set[str]:
    """The public members of a class: its own, and those of bases in this package."""
    ours = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "aiolock"]
    named = {name for base in ours for name in (*vars(base), *inspect.get_annotations(base))}
    inner = {name for base in cls.__mro__ for name in INNER.get(base, ())}
    return {name for name in named - inner if not name.startswith("_")}


def missing(documented: set[str]) -> Iterator[str]:
    """The names that the reference lacks.

    An object with several names needs an entry under one of them. A member may have its entry in a public base, which
    the page names; an argument of a class that you make yourself is explained with that.
    """
    names: dict[Any, list[str]] = {}
    for module in MODULES:
        for name, thing in public(module):
            names.setdefault(thing, []).append(name)
    for thing, known in names.items():
        if not any(name in documented for name in known):
            yield known[0]
        elif inspect.isclass(thing):
            bases = [name for base in thing.__mro__ for name in names.get(base, ())]
            arguments = {*inspect.signature(thing).parameters} if thing.__name__ in CONSTRUCTED else set()
            for member in sorted(members(thing) - arguments):
                if not any(f"{base}.{member}" in documented for base in bases):
                    yield f"{known[0]}.{member}"


def check(app: Sphinx, env: BuildEnvironment) -> None:
    documented = {name for name, *_ in env.domains.python_domain.get_objects()}
    for name in missing(documented):
        logging.getLogger(__name__).warning("the reference has no entry for %s", name)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True}
