"""The front of the command line: its extra, durations, and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

import aiolock.cli
from aiolock import ConfigurationError
from aiolock.backends.redis.handshake import MISTAKEN
from aiolock.cli.app import app
from aiolock.cli.exits import message_of
from aiolock.cli.text import Duration, in_words
from tests.support import locks as kept
from tests.support import redis_cli

from .conftest import ROOT, CommandLine, until

FIRST = "import os, sys; os.getpid = lambda: 1; from aiolock.cli.entry import main; sys.exit(main())"
"""The script `aiolock`, as the first process of a container runs it."""


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says what to install, by the name of our distribution."""
    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "aiolock.cli.app")
    assert aiolock.cli.main() == 2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = capsys.readouterr().err
    assert f"pip install '{project['name']}[cli]'" in said
    assert said.count("\n") == 1
    assert project["scripts"] == {"aiolock": "aiolock.cli.entry:main"}


def test_remedies_are_those_of_the_command_line() -> None:
    """No error that it can show says what to write in Python."""
    for text in MISTAKEN.values():
        assert "LockManager" in text
        assert "LockManager" not in message_of(ConfigurationError("", text))


def test_a_pipe_that_is_closed_early(cli: CommandLine) -> None:
    """As in `aiolock ls | head -1`: no traceback, and not the code of "there is nothing"."""
    with redis_cli.client(cli.url) as link:
        kept.change(link, "a", owner="owner:1", fence=1, depth=1, expires=99999999999999, process="host:1")
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [cli.python, "-m", "aiolock", "ls"], stdout=writing, stderr=-1, env=cli.environment, check=False
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
@pytest.mark.parametrize("words", [("ls",), ("top", "--once", "--json"), ("--help",)])
def test_a_full_disk(cli: CommandLine, words: tuple[str, ...]) -> None:
    """One line, no traceback, and a code that means nothing else. Kept by errors_as_exits."""
    with redis_cli.client(cli.url) as link, open("/dev/full", "wb") as full:
        kept.change(link, "a", owner="owner:1", fence=1, depth=1, expires=99999999999999, process="host:1")
        command = [cli.python, "-m", "aiolock", *words]
        ended = subprocess.run(command, stdout=full, stderr=-1, env=cli.environment, check=False)
    assert (ended.returncode, ended.stderr) == (74, b"aiolock: the output cannot be written: No space left on device\n")


def test_the_first_process_of_a_container_hears_signals_while_it_starts(cli: CommandLine) -> None:
    """The kernel drops them if there is no handler. Kept by aiolock/cli/entry.py."""
    endless = "import pathlib, time; pathlib.Path('note').touch(); time.sleep(60)"
    (cli.folder / "click.py").write_text(endless)
    process = cli.start_python("-c", FIRST)
    until((cli.folder / "note").exists)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM


def commands(link: redis.Redis) -> int:
    """How many the server has executed for others, who do not ask it for INFO."""
    stats: Any = link.info("commandstats")
    return sum(stat["calls"] for command, stat in stats.items() if command != "cmdstat_info")


def test_the_first_process_of_a_container_hears_signals_while_it_looks(cli: CommandLine) -> None:
    """Also those that no command catches itself."""
    first = f"import sys; sys.argv = ['aiolock', 'wait', 'a']; {FIRST}"
    with redis_cli.client(cli.url) as link:
        kept.change(link, "a", owner="owner:1", fence=1, depth=1, expires=99999999999999, process="host:1")
        before = commands(link)
        process = cli.start_python("-c", first)
        until(lambda: commands(link) > before + 12)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert "Traceback" not in cli.errors


def test_version(cli: CommandLine) -> None:
    result = cli("--version")
    assert (result.exit_code, result.stdout) == (0, f"aiolock, version {aiolock.__version__}\n")


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5.0), ("500ms", 0.5), ("1.5s", 1.5), ("5m", 300.0), ("20h", 72000.0), ("7 d", 604800.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0s"), (12.34, "12.3s"), (250, "4m10s"), (12000, "3h20m"), (187200, "2d04h")]
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert in_words(seconds) == text


def test_the_server_may_be_named_before_the_command(cli: CommandLine, tmp_path: Path) -> None:
    """As in most programs; what stands after the command's name counts first, and the environment last."""
    here, nowhere = f"sqlite:///{tmp_path}/locks.db", f"sqlite:///{tmp_path}/missing/locks.db"
    environment = {"AIOLOCK_URL": nowhere}

    def code(*words: str) -> int:
        return CliRunner().invoke(app, words, env=environment).exit_code

    assert code("run", "a", "true") == 2
    assert code("--url", here, "run", "a", "true") == 0
    assert code("--url", nowhere, "run", "--url", here, "a", "true") == 0
    assert code("--url", here, "run", "--url", nowhere, "a", "true") == 2
    assert code("--url", here, "--namespace", "no{braces", "run", "a", "true") == 2
