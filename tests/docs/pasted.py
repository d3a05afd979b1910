"""Somebody who does what a page says, in an empty folder: saves its programs, runs its commands, reads what they print.

On such a page each Python block begins with the name of its file, as `# pay.py`. A console block has a command on each
line; if the next block is a text, that is what they print, and otherwise they print nothing. A fragment begins with the
program that it belongs to, as `# in pay.py`: its reader writes it there in the place of what `main` does with the
manager. Nothing is added that the page does not show. A block that has no name has a test of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
import time
import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.support import etcd, plugin_run, postgres, zookeeper

from .blocks import DATABASE_URL, ETCD_URL, ROOT, SERVER_URL, ZOOKEEPER_URL, Block, name_of, of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAMED = re.compile(r"# ([\w.]+)\n")
PART = re.compile(r"# in (\w+)\.py\n")
START = "asyncio.run(main())\n"
ELSEWHERE = {"cd", "docker", "git", "make", "redis-server"}
"""What is not run here: it needs a network, or has tests of its own. All that a `venv` is made with is not, either."""
FENCE = re.compile(r"\b\d{13,}\b")
SECONDS = re.compile(r"\b\d+\.\d+s\b")
PATIENCE = 60.0
"""Seconds that one command may take."""


class Reader:
    """Follows one page.

    Args:
        folder: where to; it is empty.
        url: of the server that stands for the one on localhost.
        varies: for each line that may be different at each run, a pattern for what is printed instead.
    """

    def __init__(self, folder: Path, url: str, varies: Mapping[str, str] = {}) -> None:
        self.folder, self._url, self._varies = folder, url, varies
        self._port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._fences: list[tuple[int, int]] = []  # as shown, and as printed
        self.environment = {**environment(folder), "UVICORN_PORT": str(self._port)}

    def follow(self, page: Path) -> None:
        """Do all that a page says.

        Raises:
            AssertionError: something else happened than the page shows.
        """
        try:
            blocks = list(of(page))
            for block, after in zip(blocks, [*blocks[1:], None], strict=True):
                shown = after.text.splitlines() if after and after.language == "text" else []
                if block.language == "console":
                    self.run(block, shown)
                elif part := PART.match(block.text):
                    self._try(block, part[1], shown)
                elif named := NAMED.match(block.text):
                    (self.folder / named[1]).write_text(self._here(block.text), encoding="utf-8")
                else:
                    assert block.setup or block.language not in ("python", "ini"), (
                        f"{block.id}: under which name is this saved?"
                    )
        finally:
            self._stop()
        rose = sorted(self._fences) == sorted(self._fences, key=lambda pair: pair[1])
        assert rose, f"{name_of(page)}: the fences do not rise as shown: {self._fences}"

    def run(self, block: Block, shown: list[str]) -> None:
        """Run the commands of a block, but not those that leave this machine, and compare what they print."""
        for command in block.text.splitlines():
            words = shlex.split(command)
            if words[:2] == ["pip", "install"]:
                missing = [word for word in words[2:] if not all(map(installed, wanted(word)))]
                assert not missing, f"{block.id}: the tests do not install {missing}"
            elif words[0] == "uvicorn" or self._is_server(words):
                self._serve(block, command, shown)
            elif words[0] not in ELSEWHERE and "venv" not in words:
                self._run(block, block.text, shown)
                return

    def _is_server(self, words: list[str]) -> bool:
        """Whether `python shop.py` ends only when it is told to."""
        program = self.folder / words[-1]
        return words[0] == "python" and program.is_file() and "run_app(" in program.read_text(encoding="utf-8")

    def _try(self, block: Block, name: str, shown: list[str]) -> None:
        """Run a fragment with all that its program defines, while the manager is open."""
        program = (self.folder / f"{name}.py").read_text(encoding="utf-8")
        before, start, _ = program.partition(START)
        assert start, f"{block.id}: where does {name}.py begin?"
        part = textwrap.indent(self._here(block.text), " " * 8)
        whole = f"{before}async def main():\n    async with locks:\n{part}\n\n{start}"
        (self.folder / f"part_of_{name}.py").write_text(whole, encoding="utf-8")
        self._run(block, f"python part_of_{name}.py", shown)

    def _run(self, block: Block, command: str, shown: list[str]) -> None:
        done = subprocess.run(
            ["bash", "-ec", self._here(command)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        printed = done.stdout.replace(f":{self._port}", ":8000").splitlines()
        told = "\n".join([f"{block.id}: shown:", *shown, f"printed, exit code {done.returncode}:", *printed])
        assert (done.returncode, len(printed)) == (0, len(shown)), told
        for line, other in zip(shown, printed, strict=True):
            assert re.fullmatch(self._varies.get(line, re.escape(constant(line))), constant(other)), told
            self._fences += zip(map(int, FENCE.findall(line)), map(int, FENCE.findall(other)), strict=True)

    def _here(self, text: str) -> str:
        text = text.replace(SERVER_URL, self._url)
        if DATABASE_URL in text:
            text = text.replace(DATABASE_URL, postgres.dsn())
        if ETCD_URL in text:
            text = text.replace(ETCD_URL, etcd.shared().url)
        if ZOOKEEPER_URL in text:
            text = text.replace(ZOOKEEPER_URL, zookeeper.shared().url)
        return re.sub(r"\b8000\b", str(self._port), text)

    def _serve(self, block: Block, command: str, shown: list[str]) -> None:
        """Start a web server in the place of the one before, as in a terminal of its own; it runs to the page's end."""
        self._stop()
        log = self.folder / "server.log"
        with log.open("wb") as out:
            parts = {"cwd": self.folder, "env": self.environment, "start_new_session": True}
            self._server = subprocess.Popen(shlex.split(command), stdout=out, stderr=out, **parts)
        assert shown, f"{block.id}: what does the server say when it can be used?"
        due = time.monotonic() + PATIENCE
        while True:
            said = log.read_text(encoding="utf-8").replace(f":{self._port}", ":8000")
            if {*shown} <= {*said.splitlines()}:
                return
            assert self._server.poll() is None, said
            assert time.monotonic() < due, said
            time.sleep(0.02)

    def _stop(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            try:
                self._server.wait(PATIENCE)
            finally:
                if self._server.poll() is None:
                    os.killpg(self._server.pid, signal.SIGKILL)
                    self._server.wait()
            self._server = None


def environment(folder: Path) -> dict[str, str]:
    """What a reader's shell has: these commands, this package as if it were installed, and nothing of this test run."""
    ours = ("PYTEST_", "AIOLOCK_", "COV_")
    there = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    (folder / ".curlrc").write_text("silent\nshow-error\n", encoding="utf-8")  # it shows progress if nobody reads
    return there | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(plugin_run.ROOT),
        "CURL_HOME": str(folder),
        "PYTHONUNBUFFERED": "1",  # as on a terminal, where a line is seen at once
        "NO_COLOR": "1",
        "COLUMNS": "80",
        "PYTEST_ADDOPTS": " ".join([*plugin_run.OPTIONS, "-p no:randomly -p no:cacheprovider"]),
    }


def free_port() -> int:
    """A port that no connection gets by chance, and no server of aiolock.testing."""
    for port in random.SystemRandom().sample(range(20_300, 32_000), 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")


def constant(line: str) -> str:
    """A line without what differs from run to run."""
    return SECONDS.sub("0.00s", FENCE.sub("N", line)).rstrip()


def wanted(requirement: str) -> Iterator[str]:
    """The distributions that `pip install` brings, as far as this project knows: itself, and what its extras need."""
    asked = Requirement(requirement)
    if asked.name != PROJECT["name"]:
        yield asked.name
    for extra in asked.extras if asked.name == PROJECT["name"] else ():
        yield from (Requirement(line).name for line in PROJECT["optional-dependencies"][extra])


def installed(name: str) -> bool:
    """Whether these tests can import it."""
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False
