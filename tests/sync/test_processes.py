"""Threads of two real processes, on a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from itertools import pairwise

from tests.support.forked import ROOT, Forked

ROUNDS, THREADS = 15, 3
PROGRAM = """
import json, os, sys, threading
import redis
from aiolock.sync import LockManager

url, rounds, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
entries = []

def work():
    client = redis.Redis.from_url(url)
    with client:
        for _ in range(rounds):
            with lock as lease:
                seen = int(client.get("count") or 0)
                entries.append([lease.fence, seen, lease.abandoned])
                client.set("count", seen + 1)

with LockManager(url, ttl=1.0) as locks:
    lock = locks.lock("counter")
    if rounds == 0:
        lock.acquire()
        print("holds", flush=True)
        sys.stdin.read()
    crew = [threading.Thread(target=work) for _ in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
print(json.dumps(entries))
"""


def start(url: str, rounds: int) -> Forked:
    words = ["-W", "error", "-c", PROGRAM, url, str(rounds), str(THREADS)]
    return Forked(words, env=dict(os.environ), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_no_increment_is_lost_between_processes(redis_url: str) -> None:
    """Also not when one was killed while it held the lock. Kept by Portal.open: its loop ends with its process."""
    killed = start(redis_url, 0)
    assert killed.stdout is not None
    assert killed.stdout.readline() == b"holds\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    crew = [start(redis_url, ROUNDS) for _ in range(2)]
    entries = sorted(tuple(entry) for process in crew for entry in json.loads(process.communicate(timeout=60)[0]))
    assert [process.returncode for process in crew] == [0, 0]
    assert [seen for _, seen, _ in entries] == list(range(2 * THREADS * ROUNDS))  # in the order of their fences
    assert all(one[0] < other[0] for one, other in pairwise(entries))
    assert [abandoned for _, _, abandoned in entries].count(True) == 1
