"""Durations as people type them: 500ms, 30s, 5m, 20h, 7d."""

from __future__ import annotations

import re

import click

_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d|)")


class Duration(click.ParamType[float]):
    """A number with a unit, or seconds without one; the value is in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See `click.ParamType`."""
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no duration: write 500ms, 30s, 5m, 20h or 7d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


def in_words(seconds: float) -> str:
    """A duration for a column: 0.8s, 12.3s, 4m10s, 3h20m, 2d04h."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"
