"""Real servers of ZooKeeper: one for each worker of a run; tests that break one start their own. Asked by the words
that a server knows, and by kazoo, so that nothing of what is tested asks.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import random
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kazoo import retry
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError
from kazoo.protocol import connection

from aiolock.testing.server import _free_port
from tests.support.maven import jars

from .members import Member
from .running import keep, release

POM = Path(__file__).parents[1] / "zookeeper/java/pom.xml"
TICK_MS = 500
# Its threads draw at any time: if they drew from what Hypothesis seeds, a generated test would not be repeatable.
connection.random = retry.random = random.Random()


def class_path() -> str:
    """Of the server, and of Curator. Skips the test where there is no Java, no Maven or no repository."""
    return f"{jars(POM, 'zookeeper')}/*"


class ZooKeeper:
    """An ensemble of its own.

    Args:
        members: how many.
        options: more lines of their configuration.

    Attributes:
        members: its servers.
    """

    def __init__(self, members: int = 1, *options: str) -> None:
        jars_of = class_path()
        self.folder = Path(tempfile.mkdtemp(prefix="aiolock-zk-"))
        self._using = keep(self.folder)
        self._client: KazooClient | None = None
        self._silent: list[socket.socket] = []
        self.peers = [(_free_port(), _free_port()) for _ in range(members)]
        self.members = []
        for at in range(members):
            port, home = _free_port(), self.folder / f"s{at}"
            home.mkdir()
            (home / "zoo.cfg").write_text("\n".join([*self._lines(home, port, at), *options]))
            java = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars_of)
            server = ("-Dzookeeper.forceSync=no", "org.apache.zookeeper.server.quorum.QuorumPeerMain")
            self.members.append(Member([*java, *server, str(home / "zoo.cfg")], self.folder / f"s{at}.log", port))

    def _lines(self, home: Path, port: int, at: int) -> Iterator[str]:
        yield f"dataDir={home}"
        yield f"clientPort={port}"
        yield "clientPortAddress=127.0.0.1"
        yield f"tickTime={TICK_MS}"
        yield "initLimit=20"
        yield "syncLimit=4"
        yield "maxSessionTimeout=120000"
        yield "admin.enableServer=false"
        yield "4lw.commands.whitelist=*"
        yield "maxClientCnxns=0"
        if len(self.peers) > 1:
            (home / "myid").write_text(str(at + 1))
            for number, ports in enumerate(self.peers):
                peer, election = self.seen_by(at, number, ports)
                yield f"server.{number + 1}=127.0.0.1:{peer}:{election}"

    def seen_by(self, at: int, number: int, ports: tuple[int, int]) -> tuple[int, int]:
        """The ports at which a follower reaches its leader, and at which one server votes with another."""
        return ports

    def start(self) -> ZooKeeper:
        """Start all, and wait for a leader."""
        for member in self.members:
            member.start()
        self.wait()
        return self

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until all serve."""
        end = time.monotonic() + seconds
        while not all(mode(member) for member in self.members):
            if time.monotonic() > end:
                raise TimeoutError("\n".join(member.log.read_text()[-1500:] for member in self.members))
            for member in self.members:
                if member.ended:  # a connection of another process had its port: no port is kept for a server
                    member.start()
            time.sleep(0.05)

    def leader(self) -> Member | None:
        """The member that leads, or is alone; None if there is none."""
        return next((member for member in self.members if mode(member) in ("leader", "standalone")), None)

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    @property
    def url(self) -> str:
        return f"zookeeper://{self.hosts}"

    @property
    def client(self) -> KazooClient:
        """Another program's."""
        if self._client is None:
            self._client = KazooClient(self.hosts, timeout=10.0)
            self._client.start(30)
            self._client.add_auth("digest", "me:secret")  # so that it may delete what a test's user has made
        return self._client

    def plant(self, prefix: str, data: bytes, seconds: float) -> str:
        """Make an ephemeral node with a number, as a process that then falls silent; return its path."""
        link = socket.create_connection(("127.0.0.1", self.members[0].port), 5.0)
        self._silent.append(link)
        _ask(link, struct.pack(">iqiq", 0, 0, round(seconds * 1000), 0) + _text(bytes(16)) + b"\0")
        anyone = struct.pack(">ii", 1, 31) + _text(b"world") + _text(b"anyone")
        made = _ask(
            link, struct.pack(">ii", 1, 1) + _text(prefix.encode()) + _text(data) + anyone + struct.pack(">i", 3)
        )
        (size,) = struct.unpack_from(">i", made, 16)
        return made[20 : 20 + size].decode()

    def children(self, path: str) -> list[str]:
        """The names below a node; none if there is no such node."""
        try:
            return sorted(self.client.retry(self.client.get_children, path))
        except NoNodeError:
            return []

    def flush(self) -> None:
        """Delete all."""
        for link in self._silent:
            link.close()
        self._silent.clear()
        for name in self.children("/"):
            if name != "zookeeper":
                with contextlib.suppress(NoNodeError, NotEmptyError):  # a manager may be there
                    self.client.delete(f"/{name}", recursive=True)

    def close(self) -> None:
        if self._client is not None:
            self._client.stop()
            self._client.close()
            self._client = None
        for link in self._silent:
            link.close()
        for member in self.members:
            member.kill()
        release(self._using)

    def __enter__(self) -> ZooKeeper:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


def _text(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _ask(link: socket.socket, packet: bytes) -> bytes:
    link.sendall(_text(packet))
    with link.makefile("rb") as answers:
        (size,) = struct.unpack(">i", answers.read(4))
        answer: bytes = answers.read(size)
        return answer


def word(member: Member, text: str) -> str:
    """What a server answers to a word of four letters; "" if nothing."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", member.port), 1.0) as link:
        link.settimeout(2.0)
        link.sendall(text.encode())
        while part := link.recv(65536):
            answer += part
    return answer.decode()


def mode(member: Member) -> str:
    """ "leader", "follower", "standalone"; "" if it does not serve."""
    lines = word(member, "srvr").splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("Mode")), "")


@functools.cache
def shared() -> ZooKeeper:
    """The server of this worker, until it ends."""
    made = ZooKeeper()
    atexit.register(made.close)
    return made.start()
