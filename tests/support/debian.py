"""Packages of Debian and Ubuntu, unpacked beside our Python without any rights."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def unpack(root: Path, packages: Sequence[str]) -> None:
    """Put the first of these packages into the folder, with the libraries it needs, if Debian's tools find one;
    otherwise leave the folder empty.
    """
    with tempfile.TemporaryDirectory(prefix="aiolock-deb-") as text:
        folder = Path(text)
        (folder / "lists/partial").mkdir(parents=True)
        own = ["-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/", "-o", "APT::Sandbox::User="]

        def run(*command: str) -> str | None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
                return None if done.returncode else done.stdout
            return None

        run("apt-get", *own, "-o", "Debug::NoLocking=1", "update")
        named = next((name for name in packages if run("apt-get", *own, "download", name) is not None), None)
        if named is not None:
            (package,) = folder.glob("*.deb")
            needs = [one.split()[0] for one in (run("dpkg-deb", "-f", str(package), "Depends") or "").split(",")]
            for name in needs:
                if name.startswith("lib") and run("dpkg-query", "-W", name) is None:
                    run("apt-get", *own, "download", name)
            for archive in folder.glob("*.deb"):
                run("dpkg-deb", "-x", str(archive), str(folder / "root"))
        (folder / "root").mkdir(exist_ok=True)
        shutil.move(folder / "root", root)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
