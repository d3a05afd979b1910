"""Docstrings in the house's style, as reStructuredText: `name` in single backquotes is code, and asterisks are text."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

import aiolock
import aiolock.testing

PUBLIC = {*aiolock.__all__, *aiolock.testing.__all__}
CONSTRUCTED = {"LockManager", "Poll", "MemoryBackend", "VirtualClock"}
"""The classes that users construct. Of the others, the constructor's arguments are left out."""

CODE = re.compile(r"(`[^`\n]+`)")
MARKUP = re.compile(r"[*|]|_\b|(?<=\w)_(?!\w)")
ARGUMENTS = re.compile(r"^Args:\n(?:(?: {4}.*)?\n)*", re.M)


def role(code: str) -> str:
    """A link where the code names something public, else plain code."""
    target = code.removesuffix("()")
    if target.split(".")[0] in PUBLIC and re.fullmatch(r"[\w.]+", target):
        return f":py:obj:`{code} <aiolock.{target}>`"
    return f"``{code}``"


def convert(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Before napoleon reads it."""
    text = "\n".join(lines) + "\n"
    if what in ("class", "exception") and name.rpartition(".")[2] not in CONSTRUCTED:
        text = ARGUMENTS.sub("", text)
    pieces = CODE.split(text)
    pieces[::2] = [MARKUP.sub(r"\\\g<0>", piece) for piece in pieces[::2]]
    pieces[1::2] = [role(piece[1:-1]) for piece in pieces[1::2]]
    lines[:] = "".join(pieces).split("\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", convert, priority=100)
    return {"parallel_read_safe": True}
