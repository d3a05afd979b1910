"""Decodes the raw replies of the scripts for Redisson's wire."""

from __future__ import annotations

from ..base import Reply, as_list, as_number, as_text
from ..lock.decode import nest
from ..outcomes import AcquireOutcome, Finished, Granted, Held, Refused, Released, ReleaseOutcome, Standing


def acquire(reply: Reply) -> AcquireOutcome:
    word, _, facts = as_text(reply).partition(" ")
    match word:
        case "granted":
            token, pttl = facts.split(" ")
            return Granted(int(token), int(pttl), abandoned=False)
        case "refused":
            pttl, holder = facts.split(" ", 1)
            return Refused(int(pttl), 0, holder)
    return Finished()


def release(reply: Reply) -> ReleaseOutcome:
    return Released(0) if as_text(reply) == "released" else nest(reply)


def info(reply: Reply) -> Standing:
    pttl, token, *holder = as_list(reply)
    held = None
    if holder:
        owner, depth = as_text(holder[0]), as_number(holder[1])
        held = Held(owner, depth, as_number(pttl), as_number(token), owner)
    return Standing(len(holder) // 2, len(holder) // 2, 1, as_number(token), 0, None, held)
