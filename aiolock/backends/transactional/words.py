"""What a database is asked in one exchange: one text for each list, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .channels import name_of
from .plan import Plan


def words_of(
    plans: Sequence[Plan],
    tag: Callable[[int], tuple[int, ...]],
    ear: Callable[[str], tuple[int | str, ...] | None],
    message: Callable[[Plan, str, str], str],
    keep_us: int,
) -> list[str | None]:
    """The arguments of `exchange_1` from `tags` on, as the schema says them; None for a list without anything.

    Args:
        plans: what shall be carried out; the place of each is its group.
        tag: what stands for the number of a name.
        ear: what stands for a channel or a lock that someone may have; None if the server is not asked.
        message: what a plan sends on a channel.
        keep_us: for how long names are kept for a plan that came too late.
    """
    tags = sorted((*tag(number), at) for at, plan in enumerate(plans) for number in plan.tags)
    keys: list[tuple[str, int | None, int]] = []
    written: list[tuple[str, str, str, int | None, int]] = []
    gone: list[tuple[str, int]] = []
    tell: list[tuple[int, str, str]] = []
    ears: list[tuple[int | str, ...]] = []
    for at, plan in enumerate(plans):
        keys += [(kept(key), version, at) for key, version in plan.keys.items()]
        for key, row in plan.writes.items():
            if row is None:
                gone.append((kept(key), at))
            else:
                written.append((kept(key), row.kind, row.as_json(), row.expires, at))
        tell += [(at, name_of(channel), message(plan, channel, payload)) for channel, payload in plan.messages]
        ears += [(at, *named, int(heard)) for one, heard in plan.hears.items() if (named := ear(one)) is not None]
    late = _groups(bool(plan.attempts) for plan in plans)
    found: dict[str, Any] = {
        "gone": sorted(gone),
        "late": late,
        "keep": late and keep_us,
        "firm": _groups(plan.firm for plan in plans),
        "urgent": _groups(plan.urgent for plan in plans),
        "lazy": int(all(plan.lazy for plan in plans)),
        "tell": tell,
        "ears": ears,
    }
    more = {what: of for what, of in found.items() if of}
    return [_json(tags), _json(sorted(keys)), _json(sorted(written)), _json(more)]


def kept(key: str) -> str:
    """A key without NUL, which not all databases have. Names have no percent sign that is not written %25."""
    return key.replace("\0", "%00")


def shown(key: str) -> str:
    """The key again."""
    return key.replace("%00", "\0")


def _groups(chosen: Iterable[bool]) -> str:
    return ",".join(str(at) for at, one in enumerate(chosen) if one)


def _json(value: Any) -> str | None:
    return json.dumps(value, ensure_ascii=False) if value else None
