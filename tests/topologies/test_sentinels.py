"""The Sentinels that the tests start do what they say."""

from __future__ import annotations

import pytest
import redis

from tests.support.sentinels import SentinelSet, start_sentinels

pytestmark = pytest.mark.takes_long


async def test_a_failover_back_and_forth(sentinels: SentinelSet) -> None:
    others = sentinels.sentinels[1:]
    for _ in range(2):
        old, new = sentinels.master(), sentinels.replica()
        assert sentinels.role(old) == "master"
        assert sentinels.role(new) == "slave"
        assert sentinels.failover() is new
        await sentinels.failed_over(new)
        assert sentinels.role(old) == "master"  # for ten seconds more: nobody has told it
        await sentinels.until(lambda: "master" in map(sentinels.reported, others))
        sentinels.calm()
        assert sentinels.replica() is old
        assert {sentinels.reported(sentinel) for sentinel in sentinels.sentinels} == {"slave"}


async def test_a_master_that_is_killed_is_replaced_and_comes_back(own_sentinels: SentinelSet) -> None:
    old, new = own_sentinels.servers
    own_sentinels.kill(old)
    own_sentinels.kill(own_sentinels.sentinels[0])
    await own_sentinels.failed_over(new)
    own_sentinels.calm()
    assert own_sentinels.replica() is old
    assert len(own_sentinels.named()) == 3


def test_passwords() -> None:
    with start_sentinels(password="opens", sentinel_password="sesame") as sentinels:
        for server in (*sentinels.servers, *sentinels.sentinels):
            assert sentinels.link(server).ping()
            with redis.Redis.from_url(server.url) as stranger, pytest.raises(redis.exceptions.AuthenticationError):
                stranger.ping()
        with redis.Redis.from_url(sentinels.url(sentinels.master())) as client:
            assert client.ping()
