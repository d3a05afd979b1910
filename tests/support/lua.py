"""The scripts' Lua, as tests read and change it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from aiolock.scripts import lock, queue
from aiolock.scripts.base import Script


def number(script: Script[Any], pattern: str) -> int:
    """Return the one number that a script has in this place."""
    (found,) = set(re.findall(pattern, script.lua))
    return int(found)


def edit(patch: pytest.MonkeyPatch, scripts: Iterable[Script[Any]], old: str, new: str) -> None:
    """Replace a piece of Lua in each of these scripts. Their digests stay, as if a server had kept another text."""
    for script in scripts:
        assert old in script.lua, f"{script} has no {old!r}"
        patch.setattr(script, "lua", script.lua.replace(old, new))


MOST_ENTRIES = number(lock.RELEASE, r"for _ = 1, (\d+) do")
"""How many entries of a queue one request looks at."""
MANY_MANAGERS = number(lock.REFRESH, r"'ZCARD', KEYS\[name.at \+ 1\]\) \+ (\d+) then")
"""How many more managers than waiters are known before those that are gone are forgotten."""
ROOM = number(queue.ACQUIRE, r"local room = (\d+)")
"""How many may come and go in one script."""
