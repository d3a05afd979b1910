"""The key of a recipe as a format string: "order:{order.id}"."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from string import Formatter

from ..errors import ConfigurationError


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
        raise ConfigurationError(key, f"the key {key!r} of {shown} is no format string: {error}") from error
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
        ConfigurationError: a key that names no argument, or is none.
    """
    shown = getattr(fn, "__qualname__", repr(fn))
    if not isinstance(key, str):
        if not callable(key) or inspect.iscoroutinefunction(key):
            raise ConfigurationError("", f"the key of {shown} must be text or a plain function, not {key!r}")
        return key
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
        return key.format_map(values)

    return name_of
