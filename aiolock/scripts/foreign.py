"""Keys that another version of aiolock has written, or someone else: how they are known, and what people are told.

Scripts refuse them by lock/version.lua.
"""

from __future__ import annotations

import re

from .keys import subject_of

VERSION = "0.3"
"""Of the wire: the field `version` of each state."""
BEFORE = "0.2"
"""Of states without that field."""
TEXT = re.compile(r"\S+ \d+ \d+ \d+ \d \d+ ")
"""How the state of a lock began before 0.3."""
OTHER_TYPE = "the key of this lock already holds another type: choose another name or namespace"
"""What to do if a key is no state of any version."""
_RAISED = re.compile(
    r"\b(?:WRONGVERSION (\S+)|BADSTATE) ([^{}]*\{[^{}]*\}\S*)"  # servers append where in the script that was
)
_NOUNS = {"rw": "read-write lock", "condition": "the condition of lock", "once": "the last run of"}


def foreign(text: str) -> str | None:
    """Return what to tell people of a script's error; None if it is not about what a key says."""
    raised = _RAISED.search(text)
    if raised is None:
        return None
    return used_by(raised[1], raised[2]) if raised[1] else damaged(raised[2])


def damaged(key: str) -> str:
    """Return that someone has changed the state of a name, and what to do.

    Args:
        key: of its state.
    """
    return (
        f"the state of {_subject(key)} has values that aiolock does not write: delete the key {key!r}, and find out "
        "who changed it (whoever holds it loses it then)"
    )


def used_by(version: str, key: str) -> str:
    """Return that another version uses a name, and what to do.

    Args:
        version: of its wire.
        key: of its state.
    """
    return (
        f"{_subject(key)} is used by an aiolock with wire format {version}, and this one reads only {VERSION}: stop "
        f"the processes of that version and delete the key {key!r}, or give one of the versions a namespace of its own"
    )


def _subject(key: str) -> str:
    kind, name = subject_of(key)
    return f"{_NOUNS.get(kind, kind)} {name!r}"
