from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.forked import Forked


def started(folder: Path, *words: str) -> Forked:
    environment = {**os.environ, "GIVEN": "from outside"}
    return Forked(words, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("program", "code", "says"),
    [
        ("import os, sys; print(os.environ['GIVEN'], sys.argv[1], __name__)", 0, "from outside word __main__"),
        ("import atexit, sys; atexit.register(print, 'at the end'); sys.exit(3)", 3, "at the end"),
        ("raise ValueError('of its own')", 1, "ValueError: of its own"),
        ("import signal; signal.raise_signal(signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"),
        ("import warnings; warnings.warn('twice')", 0, "UserWarning: twice"),
    ],
)
def test_it_ends_as_an_interpreter_does(tmp_path: Path, program: str, code: int, says: str) -> None:
    process = started(tmp_path, "-c", program, "word")
    out, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert says in (out + errors).decode()


def test_warnings_can_be_errors(tmp_path: Path) -> None:
    process = started(tmp_path, "-W", "error", "-c", "import warnings; warnings.warn('once')")
    process.communicate(timeout=30)
    assert process.returncode == 1


def test_it_is_a_child_of_ours(tmp_path: Path) -> None:
    """So that its end and its stops can be waited for."""
    process = started(tmp_path, "-c", "import os, time; print(os.getppid(), os.getcwd(), flush=True); time.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline().decode().split() == [str(os.getpid()), str(tmp_path)]
    process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
