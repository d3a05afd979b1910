"""Curator's InterProcessMutex, from its own jar, and our locks exclude each other on one path, whoever is killed."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.zookeeper import ZooKeeper, class_path

pytestmark = pytest.mark.slow
TOTAL = 200
TTL = 2.0
JAVA = ("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of their program."""
    jars = class_path()
    if shutil.which("javac") is None:
        pytest.skip("there is no javac")
    folder = tmp_path_factory.mktemp("curator")
    source = Path(__file__).parent / "java/Counter.java"
    subprocess.run(["javac", "-cp", jars, "-d", str(folder), str(source)], check=True)
    return f"{jars}:{folder}"


def test_no_increment_is_lost(server: ZooKeeper, theirs: str, tmp_path: Path) -> None:
    """What was logged is never overwritten; each kill may cut off one increment that was not logged yet."""
    file, logs = tmp_path / "count", [tmp_path / f"log{number}" for number in range(4)]
    file.write_text("0")

    def start(number: int) -> subprocess.Popen[bytes]:
        common = [str(file), str(logs[number]), str(TOTAL)]
        if number % 2:
            words = [*JAVA, "-cp", theirs, "Counter", server.hosts, "/aiolock/lock/shared", *common, "3000"]
        else:
            words = [sys.executable, "-m", "tests.zookeeper.counter", server.url, "shared", *common, str(TTL)]
        return subprocess.Popen(words)

    def counted() -> int:
        return int(file.read_text())

    dice, kills = random.Random(1), 0
    running = [start(number) for number in range(4)]
    try:
        end, due = time.monotonic() + 110, 10
        while counted() < TOTAL:
            assert time.monotonic() < end, f"only {counted()} after {kills} kills"
            if counted() >= due:
                victim = dice.randrange(4)
                running[victim].kill()
                running[victim].wait()
                running[victim], kills, due = start(victim), kills + 1, counted() + 25
            time.sleep(0.01)
        for one in running:
            assert one.wait(30) == 0
    finally:
        for one in running:
            one.kill()
            one.wait()
    shares = [len(log.read_text().splitlines()) if log.exists() else 0 for log in logs]
    assert sum(shares) <= counted() <= sum(shares) + kills
    assert shares[0] + shares[2] > 0
    assert shares[1] + shares[3] > 0
    assert kills > 3
