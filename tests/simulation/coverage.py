"""Which lines of the core have run."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import aiolock.core

CORE = Path(aiolock.core.__file__).parent


class Coverage:
    """The lines of `aiolock/core` that ran while it watched."""

    def __init__(self) -> None:
        self._lines: dict[str, set[int]] = {str(path): set() for path in sorted(CORE.glob("*.py"))}

    @contextmanager
    def watching(self, watch: bool) -> Iterator[None]:
        """Watch what runs in the block, or do nothing."""
        before = sys.gettrace()
        if watch:
            sys.settrace(self._enter)
        try:
            yield
        finally:
            if watch:
                sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        lines = self._lines.get(frame.f_code.co_filename)
        if lines is None:
            return None
        seen = lines

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                seen.add(frame.f_lineno)
            return line

        return line

    def report(self) -> str:
        """What did not run, by file. Lines that run at import are not counted."""
        missing, count, ran = [], 0, 0
        for path, seen in self._lines.items():
            lines = _in_functions(compile(Path(path).read_text(encoding="utf-8"), path, "exec"))
            count, ran = count + len(lines), ran + len(lines & seen)
            left = sorted(lines - seen)
            if left:
                missing.append(f"  {Path(path).name}: {', '.join(map(str, left))}")
        share = 100 * ran / max(1, count)
        return "\n".join([f"lines of aiolock/core that ran: {ran} of {count} ({share:.0f} %); not these:", *missing])


def _in_functions(code: CodeType, inside: bool = False) -> set[int]:
    """The lines of functions, without those that only begin one."""
    lines: set[int] = set()
    if inside:
        lines = {line for _, line in dis.findlinestarts(code) if line and line != code.co_firstlineno}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            function = bool(constant.co_flags & 0x2)  # CO_NEWLOCALS: a function, and not a class
            lines |= _in_functions(constant, function)
    return lines
