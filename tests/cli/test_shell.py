"""What a shell gives the command: a password that is in no list of processes, and words to complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
from click.testing import CliRunner, Result

from aiolock.backends.redis.clients import of_url
from aiolock.cli.app import app
from aiolock.cli.connection import _one_with_password

ROOT = Path(__file__).parents[2]
PASSWORD = "p@ss/w:rd %"
SEEN = "no name is held or waited for"


@pytest.fixture
def url(redis_url: str) -> str:
    """The server's address for a user with a password."""
    with redis.Redis.from_url(redis_url) as client:
        client.acl_setuser("porter", enabled=True, reset=True, passwords=[f"+{PASSWORD}"], keys="*", channels="*",
                           commands=["+@all"])  # fmt: skip
    return redis_url.replace("redis://", "redis://porter@")


def ls(*words: str, answer: str | None = None, **variables: str) -> Result:
    return CliRunner().invoke(app, ["ls", *words], input=answer, env=variables)


def test_from_a_file(url: str, tmp_path: Path) -> None:
    """As an option and as a variable; the line end does not count. Kept by `_with_password`."""
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    assert SEEN not in ls("--url", url).output
    assert SEEN in ls("--url", url, "--password-file", str(file)).output
    assert SEEN in ls(AIOLOCK_URL=url, AIOLOCK_PASSWORD_FILE=str(file)).output
    assert SEEN in CliRunner().invoke(app, ["--url", url, "--password-file", str(file), "ls"]).output


def test_typed(url: str) -> None:
    """It is not shown."""
    done = ls("--url", url, "--password-file", "-", answer=PASSWORD + "\n")
    assert SEEN in done.output
    assert PASSWORD not in done.output


def test_what_cannot_be(redis_url: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    full = tmp_path / "full"
    full.write_text("secret")
    for url, file, words in (
        (redis_url, empty, "it is empty"),
        (redis_url, tmp_path / "none", "cannot be read"),
        (redis_url.replace("//", "//user:old@"), full, "has one already"),
        (f"sqlite:///{tmp_path}/locks.db", full, "names no server"),
    ):
        done = ls("--url", url, "--password-file", str(file))
        assert done.exit_code == 2, done.output
        assert words in done.output
        assert "secret" not in done.output


@pytest.mark.parametrize("url", ["redis://redis/0", "redis://me@redis:1/2?a=b", "unix:///run/redis.sock", "rediss://h"])
def test_the_url_stays_what_it_was(url: str) -> None:
    _, known = of_url(url)
    _, found = of_url(_one_with_password(url, quote(PASSWORD, safe="")))
    assert found["password"] == PASSWORD
    assert all(found.get(part) == known.get(part) for part in ("host", "port", "db", "username", "path", "a"))


def test_the_shell_completes_commands_and_options() -> None:
    """click does it, as long as the program has its name. Broken by an entry that hides that."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "_AIOLOCK_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    program = "import sys; sys.argv = ['aiolock']; from aiolock.cli.entry import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**variables, "COMP_WORDS": "aiolock run --per"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["plain,--permits"]
