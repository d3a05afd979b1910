"""The key of a recipe as a format string: "order:{order.id}"."""

from __future__ import annotations

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
