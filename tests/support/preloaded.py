"""Libraries of ours that come before a process's own, and do what a file says, at any time."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

POSSIBLE = sys.platform == "linux" and shutil.which("cc") is not None
"""It needs a C compiler, and a system on which a library can be put in front of others (LD_PRELOAD)."""


class Preloaded:
    """For processes that are started with its `environment`; at first it changes nothing.

    Args:
        folder: for the library and its file; exists.
        name: of the source beside this module.

    Attributes:
        environment: what such a process needs.
    """

    def __init__(self, folder: Path, name: str) -> None:
        library, self._file = folder / f"{name}.so", folder / name
        self.environment: dict[str, str] = {"LD_PRELOAD": str(library), f"AIOLOCK_{name.upper()}": str(self._file)}
        self.set(0)
        source = Path(__file__).with_name(f"{name}.c")
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)

    def set(self, ms: int) -> None:
        """By how much, from now on."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("q", ms))
