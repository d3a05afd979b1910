"""A server that finds its data again after a SIGKILL, unless they are taken away."""

from __future__ import annotations

import shutil
from pathlib import Path

import redis

from aiolock.testing.server import RedisServer
from tests.support import redis_cli


class KeepingServer:
    """A server with an append-only file.

    Args:
        folder: for its data; exists.

    Attributes:
        server: the process.
        link: a blocking client.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Without fsync a write is with the system before its reply is sent: only a crash of the machine would lose it.
        self.server = RedisServer.start("--dir", str(folder), "--appendonly", "yes", "--appendfsync", "no")
        self.link: redis.Redis = redis_cli.client(self.server.url)

    def restart(self, empty: bool) -> None:
        """Start it again after a SIGKILL."""
        if empty:
            for path in self._folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.server.restart()

    def clients(self) -> int:
        """How many clients are connected, besides `link`."""
        return len(self.link.client_list()) - 1

    def close(self) -> None:
        self.link.close()
        self.server.kill()
        self.server.stop()
