"""Who the master is, from what Sentinels say, and whether what it answers counts."""

from __future__ import annotations

from typing import Any

import pytest

from aiolock.backends.redis import Desync, ErrorReply
from aiolock.backends.redis.seeds import Address
from aiolock.backends.redis.sentinels import Report
from aiolock.backends.sentinel.master import Master
from aiolock.backends.sentinel.witness import SETTLED, SPREAD, Witness
from aiolock.errors import BackendError
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from aiolock.testing import VirtualClock

OLD, NEW = Address("a", 1), Address("b", 1)


def report(master: Address, epoch: int) -> Report:
    return Report(master, epoch, replicas=1, others=2, failing_over=False, sentinel="s:1")


@pytest.fixture
def changes() -> list[Address | None]:
    return []


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def master(changes: list[Address | None], clock: VirtualClock) -> Master:
    master = Master(clock, lambda: changes.append(master.address))
    return master


def test_the_newest_configuration_counts_once_most_know_it(master: Master, changes: list[Address | None]) -> None:
    """Kept by Master.choose."""
    assert master.choose([report(OLD, 1), report(OLD, 1)], 3) == OLD
    assert master.choose([report(OLD, 1), report(NEW, 2), report(OLD, 1)], 3) == OLD
    assert master.choose([report(NEW, 2), report(NEW, 2), report(OLD, 1)], 3) == NEW
    assert master.choose([report(OLD, 1), report(NEW, 2), report(OLD, 1)], 3) == NEW  # two were restarted
    assert changes == [NEW]


def test_a_sentinel_of_other_servers(master: Master, caplog: pytest.LogCaptureFixture) -> None:
    """However new what it says; and as long as most of those listed answer. Kept by Master.choose."""
    foreign = report(NEW, 9)
    with pytest.raises(BackendError, match=r"the Sentinels disagree about the master: a:1 \(s:1\) or b:1 \(s:1\)"):
        master.choose([report(OLD, 1), foreign], 3)
    for _ in range(3):
        assert master.choose([report(OLD, 1), foreign, report(OLD, 1)], 3) == OLD
        assert master.choose([report(OLD, 1), foreign], 3) == OLD
    assert len(caplog.records) == 1
    assert "take out whoever watches other servers" in caplog.text


def test_a_failover_is_no_disagreement(master: Master, caplog: pytest.LogCaptureFixture) -> None:
    """Kept by Master._compare."""
    ahead = report(NEW, 2)._replace(failing_over=True)
    assert master.choose([report(OLD, 1), ahead, report(OLD, 1)], 3) == OLD
    assert not caplog.records


def test_an_old_master_is_not_used_again(master: Master) -> None:
    """Broken by forgetting the epoch: those that answer lag behind."""
    master.learn(NEW, 2)
    with pytest.raises(BackendError, match="older") as caught:
        master.choose([report(OLD, 1)], 3)
    assert caught.value.transient
    assert master.address == NEW


def test_sentinels_that_were_set_up_anew(master: Master, changes: list[Address | None]) -> None:
    master.learn(NEW, 7)
    assert master.choose([report(OLD, 0), report(OLD, 0)], 3) == OLD
    assert changes == [OLD]


def test_another_server_without_a_failover(master: Master, changes: list[Address | None]) -> None:
    """Each Sentinel was told to remove the master and to monitor another: that begins with the same epoch."""
    assert master.choose([report(OLD, 0)] * 3, 3) == OLD
    assert master.choose([report(NEW, 0), report(OLD, 0)], 3) == OLD
    assert master.choose([report(NEW, 0), report(NEW, 0)], 3) == NEW
    assert changes == [NEW]


async def test_a_master_that_one_sentinel_has_left(master: Master, clock: VirtualClock) -> None:
    """Its message is ahead of what the others say, but not for ever."""
    master.learn(OLD, 1)
    master.leave(OLD)
    with pytest.raises(BackendError, match="replaced"):
        master.choose([report(OLD, 1), report(OLD, 1)], 3)
    with pytest.raises(BackendError, match="replaced"):
        master.choose([report(OLD, 1), report(NEW, 2)], 3)
    assert master.choose([report(NEW, 2), report(NEW, 2)], 3) == NEW
    master.leave(OLD)  # a late message
    assert master.choose([report(NEW, 2)], 3) == NEW
    master.leave(NEW)
    await clock.advance(3.1)
    assert master.choose([report(NEW, 2)], 3) == NEW


def role(replicas: int) -> list[Any]:
    return [b"master", 100, [[b"b", b"1", b"90"]] * replicas]


class Asked:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def witness(clock: VirtualClock, asked: Asked) -> Witness:
    witness = Witness(clock, asked)
    witness.begin(1)
    return witness


def test_what_a_master_with_its_replicas_says_counts(witness: Witness, asked: Asked) -> None:
    assert not witness.undecided(role(1))
    assert not witness.undecided(role(2))  # one more: from now on both are expected
    assert witness.undecided(role(1))
    assert asked.times == 1


def test_all_sentinels_confirm_it_at_once(witness: Witness, clock: VirtualClock) -> None:
    assert witness.undecided(role(0))
    lost_at = clock.now()
    witness.confirm(lost_at - 0.1, unanimous=True, agreed=True, disputed=False)  # they were asked before it
    assert witness.undecided(role(0))
    witness.confirm(lost_at, unanimous=True, agreed=True, disputed=False)
    assert not witness.undecided(role(0))


def test_a_doubt_at_the_end_is_an_answer_that_does_not_count(witness: Witness) -> None:
    """Broken by waiting for the Sentinels, whom nobody asks any more."""
    witness.closing = True
    assert not witness.undecided(role(0))
    call = LockCalls(Keys("aiolock"), "order:42", 3_000).acquire(Bid("m:1", 1000, 0, ""))
    doubt = witness.doubt(call, b"PONG", role(0))
    assert doubt is not None
    assert "does not count: the master has lost a replica" in str(doubt)


async def test_a_majority_confirms_it_when_all_must_know(witness: Witness, clock: VirtualClock) -> None:
    assert witness.undecided(role(0))
    witness.confirm(clock.now(), unanimous=False, agreed=True, disputed=False)
    assert witness.undecided(role(0))
    await clock.advance(SETTLED)
    witness.confirm(clock.now(), unanimous=False, agreed=False, disputed=False)
    assert witness.undecided(role(0))
    witness.confirm(clock.now(), unanimous=False, agreed=True, disputed=False)
    assert not witness.undecided(role(0))


async def test_one_sentinel_that_names_another_may_be_the_first_to_know(witness: Witness, clock: VirtualClock) -> None:
    """Kept by Witness.confirm: `disputed`."""
    assert witness.undecided(role(0))
    await clock.advance(SETTLED)
    witness.confirm(clock.now(), unanimous=False, agreed=True, disputed=True)
    assert witness.undecided(role(0))
    await clock.advance(SPREAD)
    witness.confirm(clock.now(), unanimous=False, agreed=True, disputed=True)
    assert not witness.undecided(role(0))


def test_a_replica_that_returns_ends_the_doubt(witness: Witness, asked: Asked) -> None:
    assert witness.undecided(role(0))
    assert witness.undecided(role(0))
    assert not witness.undecided(role(1))
    assert witness.since is None
    assert asked.times == 1


def test_one_that_has_become_a_replica(witness: Witness) -> None:
    """What it did as the master does not count."""
    request: Any = type("Request", (), {"doing": "acquire", "name": "order:42"})
    assert not witness.undecided([b"slave", b"b", 1, b"connected", 100])
    doubt = witness.doubt(request, b"PONG", [b"slave"])
    assert doubt is not None
    assert doubt.transient
    assert not witness.undecided(role(1))
    assert witness.doubt(request, b"PONG", role(1)) is None


def test_a_role_that_is_not_told(witness: Witness, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        assert not witness.undecided(ErrorReply("NOPERM this user has no permissions"))
    assert len([record for record in caplog.records if "+role" in record.getMessage()]) == 1
    with pytest.raises(Desync):
        witness.undecided(b"OK")
