"""Programs of Debian's and Ubuntu's packages, unpacked beside our Python without any rights."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
UNSTABLE = f"deb [signed-by={KEYS}] http://deb.debian.org/debian unstable main\n"
"""What Debian builds at the moment. The system's own sources stay as they are."""
SECONDS = 10
"""What a server of packages may take for an answer."""


def program(folder: str, name: str, packages: Sequence[str], sources: str = "") -> Path | None:
    """A program of the first of these packages that apt finds. It runs with the libraries that were built with it, and
    so with their loader, whatever the system has.

    Args:
        folder: where it is, beside our Python. What was not found is not looked for again while that is there.
        name: of the program.
        packages: see above.
        sources: of apt; "" for the system's.
    """
    root = Path(sys.prefix, folder)
    found = root / "usr/wrapped" / name
    with locked(Path(f"{root}.lock")):
        if not root.exists():
            with tempfile.TemporaryDirectory(prefix=folder, dir=sys.prefix) as text:
                made = Path(text, "root")
                made.mkdir()
                if str(KEYS) not in sources or KEYS.exists():
                    _unpack(made, packages, sources)
                _wrap(made, root, name)
                made.rename(root)
    return found if found.exists() else None


def _unpack(root: Path, packages: Sequence[str], sources: str) -> None:
    """Put the first of them, and all that it needs, into the folder: for apt nothing is installed."""
    with tempfile.TemporaryDirectory(prefix="aiolock-apt-") as text:
        folder = Path(text)
        (folder / "lists/partial").mkdir(parents=True)
        (folder / "archives/partial").mkdir(parents=True)
        (folder / "status").touch()
        options = {
            "Dir::State": folder,
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder,
            "APT::Sandbox::User": "",
            "Debug::NoLocking": 1,
            "Acquire::Languages": "none",
            "Acquire::Retries": 0,
            "Acquire::http::Timeout": SECONDS,
            "Acquire::https::Timeout": SECONDS,
        }
        if sources:
            (folder / "sources").write_text(sources)
            options |= {"Dir::Etc::sourcelist": folder / "sources", "Dir::Etc::sourceparts": "-"}
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]

        def run(*command: str, timeout: int = 100) -> bool:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                return not subprocess.run(command, cwd=folder, capture_output=True, timeout=timeout).returncode
            return False

        run("apt-get", *given, "update", timeout=30)  # one source of several may fail
        get = ("apt-get", *given, "--yes", "--no-install-recommends", "--download-only", "install")
        if any(run(*get, package) for package in packages):
            for archive in folder.glob("archives/*.deb"):
                run("dpkg-deb", "-x", str(archive), str(root))
            for unread in ("doc", "man"):
                shutil.rmtree(root / "usr/share" / unread, ignore_errors=True)


def _wrap(made: Path, root: Path, name: str) -> None:
    """Write a script that runs the program in its own folder."""
    programs = [path for path in made.glob(f"usr/*bin/{name}") if path.is_file()]
    loaders = [path for path in made.rglob("ld-linux*.so.*") if path.is_file() and not path.is_symlink()]
    if not programs or not loaders:
        return
    libraries = [path for path in made.rglob("*-linux-gnu*") if path.is_dir() and any(path.glob("*.so*"))]
    there = [str(root / path.relative_to(made)) for path in (loaders[0], programs[0], *libraries)]
    script = made / "usr/wrapped" / name
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\nexec '{there[0]}' --library-path '{':'.join(there[2:])}' '{there[1]}' \"$@\"\n")
    script.chmod(0o755)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
