"""The server denies a user what the check needs: the error is clear, and nothing is held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiolock import BackendError
from tests.faults.scene import NAME, Opener, Server, until
from tests.support import acl
from tests.support.replication import Pair

USER = "aiolock-test"


@pytest.fixture
def admin(replicated: Pair) -> Iterator[Pair]:
    yield replicated
    replicated.link.execute_command("ACL", "DELUSER", USER)


@pytest.mark.parametrize("command", ["wait", "publish"])
async def test_a_denial_is_named(command: str, admin: Pair, opened: Opener, server: Server) -> None:
    """Kept by Replicas.doubt."""
    admin.link.execute_command(*acl.setuser(admin.link, USER, *acl.EVERYTHING, f"-{command}"))
    locks = await opened(admin.url.replace("redis://", f"redis://{USER}:secret@"))
    with pytest.raises(BackendError, match=f"{command.upper()} after acquire of lock '{NAME}'.* ACL") as caught:
        await locks.lock(NAME).acquire()
    assert not caught.value.transient
    await until(lambda: not server.locked())
    await locks.aclose()
