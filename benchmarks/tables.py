"""The tables of a run, as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill
from typing import Any

from .figure import Figure

Json = dict[str, Any]
VERDICTS = {"aim": "✓ aim", "must": "✓", "missed": "**missed**", "measured": "", "absent": "not measured"}
WRONG = " ⚠"
NOTHING = "–"
BEFORE = (
    "This run is older than the rest of this table: it did not measure how long a task waits between processes,\n"
    "how often it enters, or which share of the entries the hand-offs are."
)


def number(value: float | None, unit: str = "") -> str:
    """Format with three significant digits and the unit."""
    if value is None or math.isnan(value):
        return NOTHING
    if value == 0 or abs(value) >= 100:
        told = f"{value:,.0f}"
    else:
        digits = max(0, 2 - math.floor(math.log10(abs(value))))
        told = f"{value:.{min(digits, 4)}f}"
    return f"{told} {unit}".rstrip()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; bars in cells are escaped, and a column that is empty in every row is left out."""
    rows = list(rows)
    kept = [column for column in range(len(head)) if not rows or any(row[column] != NOTHING for row in rows)]
    head, rows = [head[column] for column in kept], [[row[column] for column in kept] for row in rows]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def environment(results: Json) -> str:
    """Return where it was measured, one fact per line."""
    where = results["environment"]
    libraries = ", ".join(f"{name} {version}" for name, version in where["libraries"].items())
    facts = {
        "taken": f"{results['taken']}, in {results['seconds']:.0f} s" + (", a quick run" if results["quick"] else ""),
        "machine": f"{where['cpu']}, {where['cores']} cores ({where['fingerprint']}); load before: {where['load']}",
        "system": where["kernel"],
        "Python": f"{where['python']}, {where['loop']}",
        "server": f"{where['server']} ({where['server_from']}), loopback",
        "libraries": libraries,
        "commit": where["commit"],
    }
    return "\n".join(fill(f"- {name}: {fact}", 118, subsequent_indent="  ") for name, fact in facts.items())


def targets(results: Json) -> str:
    """Return the figures that have a target."""
    rows = []
    for figure, told in _with_target(results):
        sense = _sense(figure)
        rows.append(
            [
                figure.row, f"{figure.what}{_loop(told, results)}", _value(figure),
                "" if figure.must is None else f"{sense}{number(figure.must)}",
                "" if figure.aim is None else f"{sense}{number(figure.aim)}",
                VERDICTS[figure.verdict], figure.note,
            ]
        )  # fmt: skip
    return table(["row", "what", "measured", "must", "aim", "", "note"], rows)


def missed(results: Json) -> str:
    """Return the figures that missed their target, and how many did."""
    found = [(figure, told) for figure, told in _with_target(results) if figure.verdict == "missed"]
    said = f"{len(found)} of the {len(list(_with_target(results)))} targets are missed"
    if not found:
        return f"{said}."
    rows = [
        [figure.what + _loop(told, results), number(figure.value, figure.unit), _sense(figure) + number(figure.must)]
        for figure, told in found
    ]
    return f"{said}:\n\n{table(['what', 'measured', 'must'], rows)}"


def _with_target(results: Json) -> Iterator[tuple[Figure, Json]]:
    for told in results["figures"]:
        if told.get("must") is not None or told["value"] is None:
            yield _figure(told), told


def _sense(figure: Figure) -> str:
    return "≥ " if figure.at_least else "≤ "


def measured(results: Json) -> str:
    """Return the figures without a target."""
    rows = [
        [figure.row, f"{figure.what}{_loop(told, results)}", _value(figure), figure.note]
        for told in results["figures"]
        if told["value"] is not None and told.get("must") is None
        for figure in [_figure(told)]
    ]
    return table(["row", "what", "measured", "note"], rows)


def _figure(told: Json) -> Figure:
    return Figure.from_json({name: value for name, value in told.items() if name != "loop"})


def _loop(told: Json, results: Json) -> str:
    return f" ({told['loop']})" if told["loop"] != results["environment"]["loop"] else ""


def _value(figure: Figure) -> str:
    if figure.value is not None and not figure.unit and float(figure.value).is_integer():
        return f"{figure.value:,.0f}"  # a count
    told = number(figure.value, figure.unit)
    if len(figure.samples) > 1:
        told += f" ({number(min(figure.samples))} … {number(max(figure.samples))})"
    return told


def speeds(results: Json) -> str:
    """Return how fast each library is."""
    head = [
        "library", "version", "1 task, × base", "µs per pair", "200 tasks, × base", "client CPU, 200 tasks, × base",
        "20 tasks, 1 name: per second", "p99 wait", "200 idle: commands", "CPU",
    ]  # fmt: skip
    rows = []
    for peer in _present(results):
        crowds = dict(peer.get("uncontended", {}).get("crowds", []))
        one, many = crowds.get(1, {}), crowds.get(200, {})
        contended, idle = (peer.get(part, {}) for part in ("contended", "idle"))
        pairs = one.get("pairs")
        rows.append(
            [
                peer["name"] + (WRONG if is_wrong(peer) else ""), _version(peer),
                number(one.get("ratio")), number(None if pairs is None else 1e6 / pairs), number(many.get("ratio")),
                number(many.get("cpu")), number(contended.get("acquisitions")),
                _milliseconds(contended.get("p99")), _rate(idle),
                number(_percent(idle.get("cpu")), "%"),
            ]
        )  # fmt: skip
    return table(head, rows)


def between(results: Json) -> str:
    """Return what a task sees if several processes want one name, and the hand-off with its share of the entries."""
    head = [
        "library", "wait p50", "p99", "p99, × bare BLPOP", "longest wait", "entries of a task, least / most",
        "entries/s", "× bare BLPOP", "aiolock's, × its", "hand-offs, of its entries", "hand-off p50", "hand-off p99",
        "hand-off p50, × bare BLPOP",
    ]  # fmt: skip
    peers = _present(results)
    told = table(head, [_between(peer) for peer in peers])
    if any("handoff" in peer and "share" not in peer["handoff"] for peer in peers):
        told += f"\n\n{BEFORE}"
    return told


def _between(peer: Json) -> list[str]:
    seen = peer.get("handoff", {})
    p50 = _why(peer["failed"], "handoff") if not seen else _milliseconds(seen.get("wait", {}).get("p50"))
    wait, share = seen.get("wait", {}), _percent(seen.get("share"))
    handoff = seen if "share" in seen else {}  # without its share it flatters a library that hardly ever hands on
    longest = _milliseconds(seen.get("longest"))
    if seen.get("stuck"):
        longest += f", {seen['stuck']} never entered"
    return [
        peer["name"] + (WRONG if is_wrong(peer) else ""), p50,
        _milliseconds(wait.get("p99")), number(wait.get("ratio")), longest, _shared(seen), number(seen.get("rate")),
        number(seen.get("rate_ratio")), number(seen.get("lead")), number(share, "%"),
        _milliseconds(handoff.get("p50")), _milliseconds(handoff.get("p99")), number(handoff.get("ratio")),
    ]  # fmt: skip


def _shared(seen: Json) -> str:
    return f"{seen['least']:,} / {seen['most']:,}" if "least" in seen else NOTHING


def behaviour(results: Json) -> str:
    """Return how each library behaved."""
    head = [
        "library", "two inside", "left locked by cancelled acquires",
        "by cancelled releases", "lock lost while held", "both bodies ran",
        "holder killed, ttl 1 s", "connections, 200 waiters",
    ]  # fmt: skip
    return table(head, [_did(peer) for peer in _present(results)])


def _did(peer: Json) -> list[str]:
    failed = peer["failed"]
    exclusion, cut, idle = (peer.get(part) for part in ("exclusion", "cancelled", "idle"))
    cells = [peer["name"]]
    cells.append(_bad(exclusion["overlaps"], exclusion["visits"]) if exclusion else _why(failed, "exclusion"))
    for part in ("acquires", "releases"):
        cells.append(_bad(cut[part], cut["rounds"]) if cut else _why(failed, "cancelled"))
    lost = peer.get("lost")
    if lost:
        cells.append(lost_lease(lost))
        cells.append(number(lost["beside"], "s") if lost["beside"] is not None else "nobody else entered")
    else:
        cells += [_why(failed, "lost")] * 2
    cells.append(_freed(peer["orphaned"]) if "orphaned" in peer else _why(failed, "orphaned"))
    cells.append(f"{idle['connections']:,}" if idle else _why(failed, "idle"))
    return cells


def _freed(orphaned: Json) -> str:
    after = orphaned["after"]
    return "**stays locked**" if after is None else f"free after {number(after, 's')}"


def lost_lease(lost: Json) -> str:
    """Return what the body did, in words."""
    error = f"`{lost['error']}` at its end" if lost["error"] else "no error"
    if lost["ran_on"]:
        return f"**ran on**, {error}"
    return f"cancelled after {number(lost['after'], 's')}, {error}"


def is_wrong(peer: Json) -> bool:
    """Whether it let two in at once."""
    return bool(peer.get("exclusion", {}).get("overlaps"))


def absent(results: Json) -> str:
    """Return what could not be measured here, and why."""
    lines = [f"- {peer['name']}: {peer['absent']}" for peer in results["peers"] if "absent" in peer]
    for peer in _present(results):
        lines += [f"- {peer['name']}, {part}: {why}" for part, why in peer["failed"].items()]
    lines += [f"- {name}: left out of this run" for name in results["left_out"]]
    return "\n".join(_shortened(line.rstrip(": ")) for line in lines) or "Nothing: every row and library was measured."


def settings(results: Json) -> str:
    """Return how each library was used."""
    return table(
        ["library", "versions", "settings"],
        [
            [peer["name"], ", ".join(f"{name} {found}" for name, found in peer["versions"].items()), peer["settings"]]
            for peer in _present(results)
        ],
    )


HEADLINE = ("aiolock", "redis-py", "aioredlock", "pottery")
"""The libraries that the README shows: aiolock, the lock that most people have, and two that many name."""


def headline(results: Json, shown: Sequence[str] = HEADLINE) -> str:
    """Four measurements for the README, a row each, beside a few libraries."""
    by_name = {peer["name"]: peer for peer in _present(results)}
    peers = [by_name[name] for name in shown if name in by_name]
    head = ["", *(f"{peer['name']} {_version(peer)}{WRONG if is_wrong(peer) else ''}" for peer in peers)]
    rows = [
        ["1 task, pairs/s against the baseline", *(_against_base(peer, 1) for peer in peers)],
        ["200 tasks, a lock each, pairs/s against the baseline", *(_against_base(peer, 200) for peer in peers)],
        ["20 tasks, one lock: p99 wait", *(_milliseconds(peer.get("contended", {}).get("p99")) for peer in peers)],
        ["200 tasks wait for one lock", *(_idle(peer["idle"]) if "idle" in peer else NOTHING for peer in peers)],
    ]
    where = results["environment"]
    told = (
        f"One run of `make bench`: {results['taken'][:10]}, {where['cpu']}, {where['cores']} cores, {where['python']}, "
        f"{where['server']}, commit {where['commit']}. A pair is one acquire and one release. The baseline is the "
        "cheapest lock that redis-py allows, without waiting, renewal or fence, measured in turns with each library."
    )
    wrong = [
        f"{peer['name']} in {peer['exclusion']['overlaps']:,} of {peer['exclusion']['visits']:,} entries"
        for peer in peers
        if is_wrong(peer)
    ]
    if wrong:
        told += f"{WRONG}: when a body outlasted the ttl, a second holder was inside: {', '.join(wrong)}."
    return f"{table(head, rows)}\n\n{fill(told, 118, break_on_hyphens=False)}"


def _against_base(peer: Json, tasks: int) -> str:
    return number(dict(peer.get("uncontended", {}).get("crowds", [])).get(tasks, {}).get("ratio"), "×")


def _present(results: Json) -> list[Json]:
    return [peer for peer in results["peers"] if "absent" not in peer]


def _version(peer: Json) -> str:
    return str(next(iter(peer["versions"].values())))


def _milliseconds(seconds: float | None) -> str:
    return number(None if seconds is None else seconds * 1e3, "ms")


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def _idle(idle: Json) -> str:
    some = "connection" if idle["connections"] == 1 else "connections"
    return f"{idle['commands']:,} commands in {idle['seconds']:.0f} s, {idle['connections']} {some}"


def _rate(idle: Json) -> str:
    return f"{idle['commands']:,} in {idle['seconds']:.1f} s" if idle else NOTHING


def _bad(some: int, of: int) -> str:
    return f"**{some} of {of:,}**" if some else f"0 of {of:,}"


def _why(failed: Json, part: str) -> str:
    return "failed" if part in failed else NOTHING


def _shortened(line: str) -> str:
    return line if len(line) <= 120 else f"{line[:117]}..."
