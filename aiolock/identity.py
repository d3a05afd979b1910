"""Who a manager is, for people: what others see of who holds a lock, and the server of its connections."""

from __future__ import annotations

import functools
import os
import re
import socket
from pathlib import Path

from .errors import ConfigurationError

LENGTH = 64
"""Characters of a manager's name."""
_SHORT = 12
"""Characters of a container's id that tools show."""
_NAME = re.compile(r"[!-~]+")
_IN_MOUNTS = re.compile(r"/(?:overlay-)?containers/([0-9a-f]{64})/\S* /etc/host")
"""Its own; a host sees mounts of all its containers."""
_IN_CGROUP = re.compile(r"\b([0-9a-f]{64})\b")


def check_manager_name(name: object) -> str:
    """Return a manager's name; empty for None.

    Raises:
        ConfigurationError: not a name.
    """
    if name is None:
        return ""
    if not isinstance(name, str) or len(name) > LENGTH or not _NAME.fullmatch(name):
        raise ConfigurationError(
            "", f"name must be 1 to {LENGTH} printable ASCII characters without spaces, as in 'checkout', not {name!r}"
        )
    return name


def identity(name: str) -> str:
    """Return who a manager of this name is, in this process: `name@host/container:pid`, without what there is not.

    Args:
        name: the manager's; empty if it has none.
    """
    host, container = socket.gethostname(), _container()
    if container and not host.startswith(container):
        host += f"/{container}"
    return f"{name}@{host}:{os.getpid()}" if name else f"{host}:{os.getpid()}"


@functools.cache
def _container() -> str:
    return container_of(_read("/proc/self/mountinfo"), _read("/proc/self/cgroup"))


def container_of(mounts: str, cgroup: str) -> str:
    """Return the id of the container that this process runs in, as tools show it; empty if there is none.

    Args:
        mounts: the contents of `/proc/self/mountinfo`.
        cgroup: those of `/proc/self/cgroup`, which say it on older hosts.
    """
    found = _IN_CGROUP.search(cgroup) or _IN_MOUNTS.search(mounts)
    return found[1][:_SHORT] if found else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:  # not on Linux
        return ""
