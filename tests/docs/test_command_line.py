"""The page about the command line shows what its commands print, and names them all, their options and exit codes."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from anyio.from_thread import start_blocking_portal
from click.testing import CliRunner

from aiolock.cli.app import app
from aiolock.cli.exits import ExitCode
from tests.support import redis_cli

from .blocks import ROOT
from .test_examples import example

PAGE = (ROOT / "docs/how-to/command-line.md").read_text(encoding="utf-8")
EXAMPLE = example("command_line")
VARIES = (
    (re.compile(r"\S*:\d+(?= |$|\"|,)", re.M), "process"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "manager"),
    (re.compile(r"\b(ahead|behind)\b"), "apart"),
    (re.compile(r"[\d.]+(ms|s|m|h|d)?(\d\d[smh])?"), "0"),
    (re.compile(r"[ ]+"), " "),
)
"""What differs from run to run, and from machine to machine."""
OF_THE_MACHINE = (" latency ", " clock ", " server ", " eviction ", " persistence ", " replicas ", "the defaults", "→")


def constant(text: str) -> list[str]:
    for pattern, same in VARIES:
        text = pattern.sub(same, text)
    lines = (line.rstrip() for line in text.splitlines())
    return [line for line in lines if not any(word in f" {line} " for word in OF_THE_MACHINE)]


def test_every_output_is_real(redis_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each command of the page, in its order: `python docs/examples/command_line.py` writes it anew."""

    def run(command: str) -> str:
        said = CliRunner().invoke(app, shlex.split(command)[1:], env={"AIOLOCK_URL": redis_url}).output
        out, err = capfd.readouterr()
        assert err == ""
        return said + out

    redis_cli.flush(redis_url)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(EXAMPLE.scene(redis_url)):
        page = EXAMPLE.rewritten(PAGE, run)
        (held,) = json.loads(run("aiolock info --json order:42"))
    assert len(EXAMPLE.BLOCK.findall(PAGE)) >= 8
    assert constant(page) == constant(PAGE)
    keys = {key for each in (held, *held["holders"], *held["queue"]) for key in each}
    assert len(keys) >= 15
    assert {key for key in keys if f"`{key}`" not in PAGE} == set()


def test_every_command_is_described() -> None:
    """And every option of `run`, and every exit code."""
    for name, command in app.commands.items():
        assert f"aiolock {name}" in PAGE, name
        for option in (one for parameter in command.params for one in parameter.opts if one.startswith("--")):
            assert name not in ("run", "ls", "wait", "top", "force-release") or option in PAGE, (name, option)
    table = PAGE.partition("## Exit codes")[2]
    rows = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for code in row.split(",")}
    assert rows == {int(code) for code in ExitCode}
