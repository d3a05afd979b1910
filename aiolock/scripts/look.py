"""One request that looks at a name as tools do, for those who have a manager."""

from __future__ import annotations

from functools import partial

from .base import Arg, Call, Reply, Script, as_list, as_number
from .foreign import BEFORE
from .inspections import LOOKS
from .keys import Keys
from .view import Inspection, NameView, with_processes

LOOK: Script[list[Reply]] = Script(__package__ or "", "look", as_list, prelude=("lock/version",))


def look_at(keys: Keys, kind: str, name: str) -> Call[NameView | None]:
    """Return a request for what the server has of a name, with its holders and its queue; None if it knows nothing.

    Args:
        keys: names the keys.
        kind: one of `INSPECTED_KINDS`.
        name: the name.
    """
    inspection = LOOKS[kind](keys, name, True, 0)
    read = dict.fromkeys(command[1] for command in inspection.commands)
    old = "" if kind == "lock" else BEFORE
    args: list[Arg] = [old]
    for command in inspection.commands:
        args += (len(command), *command)
    return Call(name, LOOK.decoding(partial(_view, inspection)), [*read], args)


def _view(inspection: Inspection, reply: Reply) -> NameView | None:
    (clock, *replies) = as_list(reply)
    seconds, micros = map(as_number, as_list(clock))
    view = inspection.decode(replies, seconds * 1_000_000 + micros)
    return None if view is None else with_processes([view])[0]
