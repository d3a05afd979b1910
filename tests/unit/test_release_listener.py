"""A listener on a name's channel: what it does when the server refuses, and when it answers late."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiolock import BackendError, LockManager, Poll
from aiolock.core.runtime import Runtime
from aiolock.core.waiting.race import ReleaseListener

from .test_poll import Server
from .world import settle

CHANNEL = "free"


class Scene:
    """A listener, and how often it said that the name may be free."""

    def __init__(self, server: Server, runtime: Runtime) -> None:
        self.server = server
        self.runtime = runtime
        self.signals = 0
        self.listener = ReleaseListener(runtime, CHANNEL, lambda owner: owner == "own", self._signal)

    def _signal(self) -> None:
        self.signals += 1

    async def listen(self) -> None:
        self.listener.listen()
        await settle(self.server)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    server = Server()
    async with LockManager(server) as locks:
        yield Scene(server, locks._runtime)


async def test_a_refusal_after_a_reconnect(scene: Scene) -> None:
    """Of this channel alone. Kept by ReleaseListener._on_message: `fall_back`."""
    await scene.listen()
    assert scene.signals == 1, "the confirmation"
    wake = scene.server._wakes[CHANNEL]
    wake(BackendError("", "NOPERM no permissions to access a channel"))
    assert scene.runtime.waiting.poll == Poll()
    assert scene.signals == 2


async def test_a_refusal_at_once(scene: Scene) -> None:
    """Kept by ReleaseListener._on_confirmed: `fall_back`, and the signal."""
    scene.server.refuse()
    await scene.listen()
    assert scene.runtime.waiting.poll == Poll()
    assert scene.signals == 1


async def test_a_failure_that_passes(scene: Scene) -> None:
    """It listens again when it is asked to. Kept by ReleaseListener._on_confirmed: `self.stop()`."""
    scene.server.refuse(transient=True)
    await scene.listen()
    assert scene.runtime.waiting.poll is None
    assert scene.signals == 0
    scene.server.refusal = None
    await scene.listen()
    assert scene.server.subscribed.count(CHANNEL) == 2
    assert scene.signals == 1


async def test_a_failure_of_an_earlier_subscription(scene: Scene) -> None:
    """It ends no later one. Kept by ReleaseListener._on_confirmed: `confirmed is self._confirmed`."""
    scene.server.refuse(transient=True)
    scene.listener.listen()
    scene.listener.stop()
    scene.server.refusal = None
    await scene.listen()
    assert CHANNEL in scene.server._wakes
    scene.server._wakes[CHANNEL]("another 7")
    assert scene.signals == 2
    scene.server._wakes[CHANNEL]("own 8")
    assert scene.signals == 2, "its process continued when that was written"
