"""Docstrings in the house's style, as reStructuredText: `name` in single backquotes is code, and asterisks are text."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

import aiolock
import aiolock.recipes
import aiolock.redisson
import aiolock.testing

MODULES = (aiolock, aiolock.recipes, aiolock.redisson, aiolock.testing)
PUBLIC = {name: module.__name__ for module in MODULES for name in module.__all__}
CONSTRUCTED = {"LockManager", "Poll", "Default", "MemoryBackend", "Redisson", "VirtualClock"}
CONSTRUCTED |= {"LocksPlugin", "OpenTelemetryObserver", "PrometheusObserver"}
"""The classes that users construct. Of the others, the constructor's arguments are left out."""

CODE = re.compile(r"(`[^`\n]+`)")
MARKUP = re.compile(r"[*|]|_\b|(?<=\w)_(?!\w)")
EXAMPLE = re.compile(r"^Examples?:\n((?:(?: {4}.*)?\n)+)", re.M)
FENCE = re.compile(r"^ *```.*\n", re.M)
ARGUMENTS = re.compile(r"^Args:\n(?:(?: {4}.*)?\n)*", re.M)


def role(code: str) -> str:
    """Return a link if the code names something public, otherwise plain code."""
    target = code.removesuffix("()")
    if target.split(".")[0] in PUBLIC and re.fullmatch(r"[\w.]+", target):
        return f":py:obj:`{code} <{PUBLIC[target.split('.')[0]]}.{target}>`"
    return f"``{code}``"


def convert(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Convert a docstring before napoleon reads it."""
    text = "\n".join(lines) + "\n"
    if what in ("class", "exception") and name.rpartition(".")[2] not in CONSTRUCTED:
        text = ARGUMENTS.sub("", text)
    text, *examples = EXAMPLE.split(text)  # the code of an example, and what follows it, in turns
    parts = [markup(text)]
    for code, after in zip(examples[::2], examples[1::2], strict=True):
        parts += ["\n.. rubric:: Example\n\n.. code-block:: python\n\n", FENCE.sub("", code), "\n", markup(after)]
    lines[:] = "".join(parts).split("\n")


def markup(text: str) -> str:
    """Return prose as reStructuredText."""
    pieces = CODE.split(text)
    pieces[::2] = [MARKUP.sub(r"\\\g<0>", piece) for piece in pieces[::2]]
    pieces[1::2] = [role(piece[1:-1]) for piece in pieces[1::2]]
    return "".join(pieces)


def rejoin(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """After napoleon, which takes what stands before the first colon of an attribute's docstring for its type."""
    for number, line in enumerate(lines):
        if what in ("property", "attribute") and line.startswith(":type: "):
            del lines[number]
            lines[0] = f"{line.removeprefix(':type: ')}: {lines[0]}"
            break


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", convert, priority=100)
    app.connect("autodoc-process-docstring", rejoin, priority=900)
    return {"parallel_read_safe": True}
