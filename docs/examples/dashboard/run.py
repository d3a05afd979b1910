"""Runs a fleet under faults beside a real Prometheus, and draws the dashboard from its answers.

    python docs/examples/dashboard/run.py dashboard.png

It needs `prometheus` on the PATH, a Redis or Valkey server, and matplotlib. It takes four minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import redis
from picture import draw
from queries import Span

from aiolock.testing.server import RedisServer

HERE = Path(__file__).parent
WORKERS = 4
LASTS = 210.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stderr=None if command[0] == sys.executable else subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait()


@contextlib.contextmanager
def prometheus(targets: list[str]) -> Iterator[str]:
    """A Prometheus that asks the workers each second; its address."""
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "5s"},
            "rule_files": [str(HERE / "alerts.yml")],
            "scrape_configs": [{"job_name": "shop", "static_configs": [{"targets": targets}]}],
        }
        file = Path(folder) / "prometheus.yml"  # JSON is YAML
        file.write_text(json.dumps(config), encoding="utf-8")
        address = f"127.0.0.1:{free_port()}"
        options = [f"--config.file={file}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}"]
        with running("prometheus", *options):
            ready = time.monotonic() + 30
            while True:
                try:
                    urllib.request.urlopen(f"http://{address}/-/ready", timeout=5).close()
                    break
                except (urllib.error.URLError, ConnectionError):
                    if time.monotonic() > ready:
                        raise
                    time.sleep(0.2)
            yield f"http://{address}"


def faults(server: redis.Redis, pids: list[int]) -> list[tuple[float, str, Callable[[], object]]]:
    """What goes wrong, and when: seconds since the beginning."""
    return [
        (35, "the server hangs for 3.2 s: leases come near to their end", lambda: server.client_pause(3200)),
        (70, "all connections are cut", lambda: server.client_kill_filter(_type="pubsub")),
        (100, "the first process blocks its event loop for 2 s", lambda: os.kill(pids[0], signal.SIGUSR1)),
        (
            125,
            "the second process is stopped for 9 s: it loses what it holds",
            lambda: os.kill(pids[1], signal.SIGSTOP),
        ),
        (134, "it goes on", lambda: os.kill(pids[1], signal.SIGCONT)),
        (165, "the server hangs for 7 s: longer than the leases last", lambda: server.client_pause(7000)),
    ]


def alerts(url: str) -> list[str]:
    """The alerts that fire now, and those that would if it lasted."""
    with urllib.request.urlopen(f"{url}/api/v1/alerts", timeout=30) as answer:
        active = json.load(answer)["data"]["alerts"]
    return sorted({f"{alert['labels']['alertname']} ({alert['state']})" for alert in active})


def main(picture: Path) -> None:
    with RedisServer.start(owned=True) as server, contextlib.ExitStack() as stack:
        ports = [free_port() for _ in range(WORKERS)]
        command = [sys.executable, str(HERE / "worker.py"), server.url]
        workers = [stack.enter_context(running(*command, str(port), str(port))) for port in ports]
        url = stack.enter_context(prometheus([f"127.0.0.1:{port}" for port in ports]))
        time.sleep(15.0)  # until every rate has its first values
        start = time.time()
        with redis.Redis.from_url(server.url) as client:
            for due, what, do in faults(client, [worker.pid for worker in workers]):
                time.sleep(max(0.0, start + due - time.time()))
                print(f"{time.time() - start:5.0f} s  {what}", flush=True)
                do()
        time.sleep(max(0.0, start + LASTS - time.time()))
        draw(url, Span(start, time.time()), picture)
        print(f"drew {picture}; alerts: {', '.join(alerts(url))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
