"""One address whose server changes under load: a managed failover behind a name or a relay."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support import locks, redis_cli
from tests.support.proxy import FaultProxy
from tests.support.replication import Pair

from .conftest import StartLoad
from .load import BUSY, LONG, PLAIN, REPLICATED
from .verdict import WINDOW, judge

pytestmark = pytest.mark.takes_long

NAMES = {"busy": BUSY, "long": LONG}


@pytest.mark.parametrize("options", [PLAIN, REPLICATED])
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "kept"])
async def test_a_replica_is_promoted(own_pair: Pair, load_on: StartLoad, options: dict[str, Any], cut: bool) -> None:
    """The relay leads to the new master from then on. It cuts the old connections, or leaves it to the old master,
    which has become a replica, to say so.
    """
    async with FaultProxy(own_pair.master.host, own_pair.master.port) as relay:
        load = load_on(relay.url, NAMES, **options)
        await load.begin()
        relay.redirect(own_pair.replica.host, own_pair.replica.port)
        if cut:
            relay.reset()
        await own_pair.exchange()
        healed = time.monotonic()
        await load.flows()
        judge(await load.end(), load, [healed], 0.0 if options else WINDOW)
        with redis_cli.client(own_pair.replica.url) as link:
            assert locks.nothing_held(link)
        assert relay.open == 0
