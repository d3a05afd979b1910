"""Which release had a name first: a note under each entry that is newer than the first of them.

`released.txt` has the names of each release, and a name that is not there is new in the version that is being made.
Before a release, `make docs` and then `python docs/_ext/since.py` adds those.
"""

from __future__ import annotations

import re
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
NAMES = Path(__file__).with_name("released.txt")
MEMBERS = ("method", "property", "attribute")


@cache
def releases() -> dict[str, str]:
    """The release of each name: the file has a line for each release and object, with the object's new members."""
    found = {}
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        release, name, *members = line.split()
        found[name] = found.get(name, release)
        found |= {f"{name}.{member}": release for member in members}
    return found


def since(name: str, version: str) -> str:
    """The release that had a name first, as people call it: 0.4."""
    return ".".join(releases().get(name, version).split(".")[:2])


def note(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """A member that came with its class needs no note of its own."""
    version, first = since(name, app.config.version), next(iter(releases().values()))
    known = first if what not in MEMBERS else since(name.rpartition(".")[0], app.config.version)
    if version not in (known, first.rpartition(".")[0]):
        lines += ["", f".. versionadded:: {version}", ""]


def add(version: str, documented: set[str]) -> str:
    """The lines of a release, from the names that have an entry."""
    new: dict[str, list[str]] = {}
    for name in sorted(documented - releases().keys()):
        owner, _, member = name.rpartition(".")
        if owner in documented:
            new.setdefault(owner, []).append(member)
        else:
            new.setdefault(name, [])
    return "".join(" ".join([version, name, *members]) + "\n" for name, members in sorted(new.items()))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", note, priority=950)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    *_, packed = (ROOT / "build/docs/objects.inv").read_bytes().split(b"\n", 4)
    entries = set(re.findall(r"^(\S+) py:\w+ 1 ", zlib.decompress(packed).decode(), re.M))  # -1 is another name of it
    version = re.search(r'^__version__ = "(.+)"', (ROOT / "aiolock/__init__.py").read_text(encoding="utf-8"), re.M)
    if version is None or "dev" in version[1]:
        sys.exit("set the version of the release first")
    with NAMES.open("a", encoding="utf-8") as file:
        file.write(add(version[1], entries))
