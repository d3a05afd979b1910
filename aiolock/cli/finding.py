"""What the doctor finds."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.StrEnum):
    """How bad it is. Each is also its own text."""

    OK = "ok"
    """As it should be."""
    ADVICE = "advice"
    """Locks work, but something is lost, or will be in a bad hour."""
    PROBLEM = "problem"
    """Locks do not work, or may vanish."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One of them.

    Attributes:
        topic: what it is about, in a word.
        level: how bad it is.
        text: what was found.
        advice: what to do about it; "" for nothing.
    """

    topic: str
    level: Level
    text: str
    advice: str = ""
