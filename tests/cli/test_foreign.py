"""Names whose keys another version of aiolock has written, on the command line: shown as such, and not touched."""

from __future__ import annotations

import json

import pytest

from tests.contract.test_foreign import OLD, VERSIONS, key_of, message
from tests.support import redis_cli

from .conftest import CommandLine

NAME = "order:42"
KINDS = list(OLD)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest, cli: CommandLine) -> str:
    """Of all kinds of the name."""
    with redis_cli.client(cli.url) as link:
        for kind, old in OLD.items():
            content = old if request.param == "0.2" else {"version": request.param}
            link.set(key_of(kind), content) if isinstance(content, str) else link.hset(key_of(kind), mapping=content)
        link.set("aiolock:lock:{another program's}", "a text")
    return str(request.param)


def test_ls(cli: CommandLine, version: str) -> None:
    listed = json.loads(cli("ls", "--json").stdout)
    assert {name["kind"]: (name["name"], name["state"], name["refusal"]) for name in listed} == {
        kind: (NAME, f"aiolock {version}", message(kind, version)) for kind in KINDS
    }
    assert len(listed) == len(KINDS)
    assert cli("ls").stdout.count(f"aiolock {version}") == len(KINDS)


def test_top(cli: CommandLine, version: str) -> None:
    names = json.loads(cli("top", "--once", "--json", "--interval", "100ms").stdout)["names"]
    assert {(name["kind"], name["state"]) for name in names} == {(kind, f"aiolock {version}") for kind in KINDS}


def test_info(cli: CommandLine, version: str) -> None:
    shown = cli("info", NAME)
    assert shown.exit_code == 0
    for kind in KINDS:
        assert f"{kind} {NAME}: aiolock {version}\n  {message(kind, version)}" in shown.stdout


@pytest.mark.parametrize("kind", ["lock", "rw", "semaphore"])
@pytest.mark.parametrize("command", [["wait"], ["force-release", "--yes"]], ids=lambda command: command[0])
def test_what_needs_to_know(cli: CommandLine, version: str, kind: str, command: list[str]) -> None:
    done = cli(*command, "--kind", kind, NAME)
    assert (done.exit_code, done.stderr.strip()) == (69, f"aiolock: {message(kind, version)}")
    with redis_cli.client(cli.url) as link:
        assert link.exists(key_of(kind))


def test_run(cli: CommandLine, version: str) -> None:
    done = cli("run", NAME, "--", "true")
    assert done.exit_code == 69
    assert message("lock", version) in done.stderr


def test_without_a_name(cli: CommandLine, version: str) -> None:
    """It looks at no name."""
    assert cli("doctor").exit_code == 0


DAMAGED = {
    "lock": {"owner": "m:1", "expires": "soon"},
    "semaphore": {"capacity": "3", "used": "many"},
    "rw": {"used": "1.5"},
    "latch": {"left": "two", "total": "3"},
    "once": {"fence": "x", "started": "then", "status": "running"},
}


def test_what_someone_has_damaged(cli: CommandLine) -> None:
    """The others are listed all the same. Kept by `_decode` in inspections.py."""
    with redis_cli.client(cli.url) as link:
        for kind, content in DAMAGED.items():
            link.hset(key_of(kind), mapping={"version": "0.3"} | content)
        link.hset("aiolock:latch:{sound}", mapping={"version": "0.3", "left": "2", "total": "3"})
    listed = {name["kind"]: name for name in json.loads(cli("ls", "--json").stdout) if name["name"] == NAME}
    assert listed.keys() == DAMAGED.keys()
    for kind in listed:
        assert listed[kind]["state"] == "damaged"
        assert f"delete the key {key_of(kind)!r}" in listed[kind]["refusal"]
    assert "sound" in cli("ls").stdout
    waited = cli("wait", NAME)
    assert waited.exit_code == 69
    assert f"delete the key {key_of('lock')!r}" in waited.stderr
