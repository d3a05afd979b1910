"""Commands called in this process where that is enough, and real ones where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aiolock.backends.reader import Reader
from aiolock.backends.redis import ServerConnector
from aiolock.backends.survey import Survey
from aiolock.cli.app import app
from aiolock.cli.job_control import Keeper

ROOT = Path(__file__).parents[2]


class CommandLine:
    """Calls commands that find a server by themselves.

    Args:
        url: of the server.
        folder: where real commands run, and write what they see.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.python = sys.executable
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**os.environ, "PYTHONPATH": path, "AIOLOCK_URL": self.url, "TERM": "xterm"}

    def __call__(self, *words: str, answer: str | None = None) -> Result:
        """Call one in this process, outside any event loop."""
        return CliRunner().invoke(app, list(words), input=answer, env={"AIOLOCK_URL": self.url})

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start one as a process."""
        return self.start_python("-m", "aiolock", *words)

    def start_python(self, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start an interpreter, in which something may be other than in a real command."""
        with (self.folder / "stderr").open("ab") as errors:
            process = subprocess.Popen(
                [self.python, *words],
                env={**self.environment, **variables}, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def noted(self, name: str = "note") -> list[str]:
        """The lines that commands wrote to a file."""
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    @property
    def errors(self) -> str:
        """What processes said."""
        return "\n".join(self.noted("stderr"))


@pytest.fixture
def cli(redis_url: str, tmp_path: Path) -> Iterator[CommandLine]:
    """The command line on the shared server."""
    line = CommandLine(redis_url, tmp_path)
    yield line
    for process in line.processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def with_one_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on there is one more server, as in a cluster, that cannot be reached."""
    enter = Survey.__aenter__

    async def entered(survey: Survey) -> Survey:
        await enter(survey)
        survey.masters.insert(0, Reader(ServerConnector("redis://127.0.0.1:1"), 5.0))
        return survey

    monkeypatch.setattr(Survey, "__aenter__", entered)
    monkeypatch.setattr(Survey, "serving", lambda survey, key: survey.masters[-1])
    monkeypatch.setattr(Survey, "check_complete", checked)


async def checked(survey: Survey, keys: Sequence[str]) -> None:
    """Nothing is."""


def until(check: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for what another process does."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"did not happen within {seconds} s"
        time.sleep(0.01)


_killpg = os.killpg


def protected(group: int, number: int) -> None:
    """In place of `os.killpg`: as if the group ran as root, and we did not."""
    _killpg(group, 0)
    raise PermissionError


def unheard(keeper: Keeper, *order: float) -> None:
    """In place of `Keeper.keep`: it has our rights."""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended, and that no one has asked about, does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
        return subprocess.run(["kill", "-0", str(pid)], check=False, stderr=subprocess.DEVNULL).returncode == 0
    return state != "Z"
