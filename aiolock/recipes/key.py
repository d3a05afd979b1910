"""The key of a recipe as a format string: "order:{order.id}"."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from string import Formatter

from ..errors import ConfigurationError

_ADDRESS = re.compile(r"<.+ at 0x[0-9a-fA-F]+")


def fields(key: str, shown: str) -> set[str]:
    """Return the names that a format string uses, also in its format specifications.

    Args:
        key: the format string.
        shown: whose key it is, for errors.

    Raises:
        ConfigurationError: it is none, or has a field without a name.
    """
    try:
        parts = [(field, spec or "") for _, field, spec, _ in Formatter().parse(key) if field is not None]
    except ValueError as error:
        raise ConfigurationError(key, f"the key {key!r} of {shown} is not a format string: {error}") from error
    names = {field.partition(".")[0].partition("[")[0] for field, _ in parts}
    if any(not name or name.isdecimal() for name in names):
        raise ConfigurationError(key, f"the key {key!r} of {shown} must name its arguments, as in 'order:{{order}}'")
    return names.union(*(fields(spec, shown) for _, spec in parts if spec))


def namer(fn: Callable[..., object], key: str | Callable[..., str]) -> Callable[..., str]:
    """Return what makes the lock's name of a call's arguments.

    Args:
        fn: what is called.
        key: a format string over its arguments, by their names; or a function of them.

    Raises:
        ConfigurationError: a key that names no argument, or is none. What is returned raises it for a key that another
            process does not have: of a set, or with the address of an object.
    """
    shown = getattr(fn, "__qualname__", repr(fn))
    if not isinstance(key, str):
        if not callable(key) or inspect.iscoroutinefunction(key):
            raise ConfigurationError("", f"the key of {shown} must be text or a plain function, not {key!r}")
        return lambda *args, **kwargs: _lasting(key(*args, **kwargs), shown)
    signature = inspect.signature(fn)
    rest = next((each.name for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD), None)
    named = fields(key, shown)
    for field in named:
        if field not in signature.parameters and rest is None:
            raise ConfigurationError(
                key,
                f"the key {key!r} of {shown} names {field!r}, but its arguments are {', '.join(signature.parameters)}",
            )

    def name_of(*args: object, **kwargs: object) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = {**(bound.arguments[rest] if rest else {}), **bound.arguments}
        if missing := named - values.keys():
            raise TypeError(f"{shown} needs the argument {min(missing)!r}, which its key {key!r} names")
        unordered = next((field for field in named if isinstance(values[field], set | frozenset)), None)
        if unordered is not None:
            raise ConfigurationError(
                key,
                f"the key {key!r} of {shown} has the set {unordered!r}, whose order differs between processes: pass it "
                "sorted, or a function as the key",
            )
        return _lasting(key.format_map(values), shown)

    return name_of


def _lasting(name: str, shown: str) -> str:
    if isinstance(name, str) and _ADDRESS.search(name):
        raise ConfigurationError(
            name,
            f"the key of {shown} became {name!r}: with an address in memory it excludes nobody; name what identifies "
            "the object, as in 'order:{order.id}'",
        )
    return name
