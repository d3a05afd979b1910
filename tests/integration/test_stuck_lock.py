"""The first scenario of Troubleshooting, as an operator sees it: Prometheus, the dashboard's queries, and the alert."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from aiolock import LockManager
from aiolock.contrib.prometheus import PrometheusObserver
from tests.docs.test_dashboard import ALERTS, GRAPHS

PROMETHEUS = shutil.which("prometheus")
WAITERS = 20
pytestmark = pytest.mark.skipif(
    PROMETHEUS is None, reason="no prometheus on the PATH: it plays Troubleshooting's first scenario"
)


class Prometheus:
    """One that looks at one target, five times a second."""

    def __init__(self, folder: Path, target: str) -> None:
        (folder / "alerts.yml").write_text(ALERTS.replace(" > 60", " > 1"), encoding="utf-8")  # a minute is long
        config = {
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"},
            "rule_files": [str(folder / "alerts.yml")],
            "scrape_configs": [{"job_name": "shop", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
        self.log = folder / "log"
        assert PROMETHEUS is not None
        options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([PROMETHEUS, *options, "--web.listen-address=127.0.0.1:0"], stderr=log)
        self._url = ""

    @property
    def url(self) -> str:
        """Where it listens, as its log says."""
        if not self._url:
            said = [line for line in self.log.read_text().splitlines() if "Listening on" in line]
            self._url = "http://" + said[0].split("address=")[1].split()[0] if said else ""
        return self._url

    def ask(self, path: str, **arguments: str) -> Any:
        """What its API answers; None while it does not."""
        try:
            address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
            with urllib.request.urlopen(address, timeout=30) as answer:
                return json.load(answer)["data"]
        except (OSError, ValueError):
            return None

    def panel(self, title: str) -> float:
        """The number on a panel of the dashboard."""
        (query,) = next(panel["targets"] for panel in GRAPHS if panel["title"] == title)
        expression = query["expr"]
        for variable in ("instance", "kind", "lock"):
            expression = expression.replace(f'"${variable}"', '".*"')
        found = self.ask("query", query=expression)
        return float(found["result"][0]["value"][1]) if found and found["result"] else -1.0

    def fires(self, alert: str) -> bool:
        active = (self.ask("alerts") or {"alerts": []})["alerts"]
        return alert in {one["labels"]["alertname"] for one in active if one["state"] == "firing"}


@pytest.fixture
def registry() -> Iterator[tuple[CollectorRegistry, str]]:
    """What is scraped, and where."""
    made = CollectorRegistry()
    server, thread = start_http_server(0, addr="127.0.0.1", registry=made)
    yield made, f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def prometheus(registry: tuple[CollectorRegistry, str], tmp_path: Path) -> Iterator[Prometheus]:
    made = Prometheus(tmp_path, registry[1])
    yield made
    made.process.terminate()
    made.process.wait()


async def till(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not await asyncio.to_thread(check):  # noqa: ASYNC110 - Prometheus announces nothing
            await asyncio.sleep(0.1)


async def test_a_lock_is_stuck(redis_url: str, registry: tuple[CollectorRegistry, str], prometheus: Prometheus) -> None:
    """Seen while it is, and over when it is. Kept by PrometheusObserver._waiting."""
    observer = PrometheusObserver(registry=registry[0], label=lambda name: name.partition(":")[0])
    async with LockManager(redis_url) as elsewhere, LockManager(redis_url, observer=observer) as locks:

        async def use() -> None:
            async with locks.lock("order:42"):
                pass

        async with elsewhere.lock("order:42"):
            tasks = [asyncio.create_task(use()) for _ in range(WAITERS)]
            await till(lambda: prometheus.panel("Waiting") == WAITERS)
            await till(lambda: prometheus.panel("Longest wait") > 1)
            await till(lambda: prometheus.fires("LockWaitIsLong"))
        await asyncio.gather(*tasks)
        await till(lambda: prometheus.panel("Waiting") == prometheus.panel("Longest wait") == 0)
        await till(lambda: not prometheus.fires("LockWaitIsLong"))
