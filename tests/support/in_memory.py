"""Where temporary files wait for no disk: what tests write shall survive their processes, not the machine. A file of
locks and an etcd wait for the disk with each request, and databases while they begin.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

FOLDER = Path("/dev/shm")
ENOUGH = 4 << 30
"""Bytes: several times what the servers of a run have at once."""


def has_room() -> bool:
    """Whether the machine has such a folder, in which programs may run, and the memory."""
    if not os.access(FOLDER, os.W_OK):
        return False
    found = os.statvfs(FOLDER)
    free = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available)
    return not found.f_flag & os.ST_NOEXEC and free >= ENOUGH
