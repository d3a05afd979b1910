"""Real stores that keep queues: what is the same on each is tested here, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from aiolock import LockManager
from tests.support import etcd, zookeeper
from tests.support.etcd import Etcd
from tests.support.members import Member
from tests.support.zookeeper import ZooKeeper

Server: TypeAlias = Etcd | ZooKeeper
Kind: TypeAlias = Callable[..., Any]


@pytest.fixture(params=["etcd", "zookeeper"])
def store(request: pytest.FixtureRequest) -> str:
    """Each of them."""
    name: str = request.param
    return name


@pytest.fixture
def kind(store: str) -> Kind:
    """Makes servers of one's own."""
    return Etcd if store == "etcd" else ZooKeeper


@pytest.fixture
def server(store: str) -> Server:
    """Shared by the tests of a worker, and empty."""
    if store == "zookeeper":
        zookeeper.shared().flush()
        return zookeeper.shared()
    etcd.shared().delete("\0", "\xff")
    return etcd.shared()


@pytest.fixture
def url(server: Server) -> str:
    """Its address."""
    return server.url


def link_of(locks: LockManager, server: Server) -> Any:
    """The connection of a manager; None while it has none."""
    store: Any = locks._runtime.backend._store  # type: ignore[attr-defined]
    return store._cluster._link if isinstance(server, Etcd) else store._sessions.main()._link


def used_by(locks: LockManager, server: Server) -> Member:
    """The member to which a manager is connected."""
    link = link_of(locks, server)
    return next(member for member in server.members if link.address.endswith(f":{member.port}"))


def session_of(locks: LockManager) -> Any:
    """The session of ZooKeeper that a manager uses for what is no place."""
    return locks._runtime.backend._store._sessions.main()  # type: ignore[attr-defined]
