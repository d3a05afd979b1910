"""What the scripts about a hold promise: nest, renew, force_release, confirm and info."""

from __future__ import annotations

import pytest

from aiolock.errors import LossReason
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import DIRTY_MS, GRACE_MS
from aiolock.scripts.lock import confirm, renew
from aiolock.scripts.outcomes import Asked, Failed, Granted, Held, Kept, Missing, Renewed, RenewOutcome, Standing
from tests.support.lock_calls import (
    FENCE,
    HIGH,
    LIVENESS,
    TTL,
    Lock,
    change,
    enter,
    expire,
    forget,
    hears,
    state,
    waiters,
)
from tests.support.scripting import Side

NAME = Lock()
OTHER = Lock("other")
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "me"))


def renewed(side: Side, owner: str = "m:1", fence: int = FENCE, ttl: int = 2 * TTL) -> RenewOutcome:
    (outcome,) = side.run(renew([NAME.renewal(owner, fence, ttl)]))
    return outcome


class TestNest:
    def test_nothing_is_lowered_or_shortened(self, side: Side) -> None:
        side.run(HELD)
        assert side.run(NAME.nest("m:1", FENCE, 2 * TTL, 3)) == Kept(2 * TTL)
        kept = side.run(NAME.nest("m:1", FENCE, TTL, 2))
        assert isinstance(kept, Kept)
        assert kept.pttl > TTL
        assert state(side, NAME).depth == 3

    def test_the_state_outlives_the_hold(self, side: Side) -> None:
        side.run(HELD)
        side.run(NAME.nest("m:1", FENCE, 2 * DIRTY_MS, 2))
        assert side.pttl(NAME.state) > 2 * DIRTY_MS + GRACE_MS - 10_000

    def test_a_request_that_does_not_hold_is_told_why(self, side: Side) -> None:
        assert side.run(NAME.nest("m:1", FENCE, TTL, 2)) == Missing(LossReason.DELETED)
        side.run(HELD)
        assert side.run(NAME.nest("m:1", FENCE - 1, TTL, 2)) == Missing(LossReason.TAKEN_OVER)
        assert side.run(NAME.nest("m:2", FENCE, TTL, 2)) == Missing(LossReason.TAKEN_OVER)


class TestRenew:
    def test_it_extends_and_never_shortens(self, side: Side) -> None:
        side.run(HELD)
        assert renewed(side) == Renewed(2 * TTL)
        shorter = renewed(side, ttl=TTL)
        assert isinstance(shorter, Renewed)
        assert shorter.pttl > TTL
        assert state(side, NAME).process == "me"

    def test_a_look_changes_nothing(self, side: Side) -> None:
        side.run(HELD)
        before = state(side, NAME)
        assert isinstance(renewed(side, ttl=0), Renewed)
        assert state(side, NAME) == before
        expire(side, NAME)
        assert renewed(side, ttl=0) == Renewed(0)

    def test_an_expired_hold_that_no_one_took_continues(self, side: Side) -> None:
        """Its fence is still the last, so no one was let in since."""
        side.run(HELD)
        expire(side, NAME)
        assert renewed(side) == Renewed(2 * TTL)

    def test_a_late_renewal_dies(self, side: Side) -> None:
        """Hazard 11: owner and fence."""
        assert renewed(side) == Missing(LossReason.DELETED)
        side.run(HELD)
        assert renewed(side, fence=FENCE - 1) == Missing(LossReason.TAKEN_OVER)
        side.run(NAME.release("m:1", TTL, 0, "clean", False))
        assert renewed(side) == Missing(LossReason.DELETED)
        side.run(NAME.acquire(Bid("m:2", TTL, 0, "")))
        assert renewed(side) == Missing(LossReason.TAKEN_OVER)
        expire(side, NAME)
        assert renewed(side) == Missing(LossReason.DELETED)

    def test_each_hold_is_judged_by_itself(self, side: Side) -> None:
        """Guards pcall."""
        side.run(HELD)
        side.hset(OTHER.state, {"of": "another"})
        failed, held = side.run(renew([OTHER.renewal("m:2", FENCE, TTL), NAME.renewal("m:1", FENCE, 2 * TTL)]))
        assert isinstance(failed, Failed)
        assert "WRONGTYPE" in failed.error
        assert held == Renewed(2 * TTL)


class TestForceRelease:
    def test_the_holder_is_told_and_the_next_is_granted(self, side: Side) -> None:
        hears(side, NAME, "m", "n")
        side.run(HELD)
        enter(side, NAME, "n:1")
        assert side.run(NAME.force_release(FENCE)) is True
        assert sorted(payload for _, payload in side.heard()) == [
            f"granted n:1 {FENCE + 1} 1 {NAME.state}",
            f"revoked m:1 {FENCE}",
        ]
        assert state(side, NAME).owner == "n:1"

    @pytest.mark.parametrize("depth", [0, 1])
    def test_without_waiters_it_is_free_and_dirty(self, depth: int, side: Side) -> None:
        """A task that was granted the lock may have entered before its confirmation arrived."""
        side.run(HELD)
        change(side, NAME, depth=depth)
        assert side.run(NAME.force_release()) is True
        found = state(side, NAME)
        assert (found.owner, found.expires, found.abandoned) == ("", 0, "1")
        assert side.run(NAME.acquire(Bid("m:2", TTL, 0, ""))) == Granted(FENCE + 1, TTL, abandoned=True)

    @pytest.mark.parametrize("fence", [FENCE - 1, FENCE + 1])
    def test_another_fence_ends_no_hold(self, fence: int, side: Side) -> None:
        assert side.run(NAME.force_release()) is False
        side.run(HELD)
        assert side.run(NAME.force_release(fence)) is False
        assert state(side, NAME).owner == "m:1"
        expire(side, NAME)
        assert side.run(NAME.force_release()) is False


class TestRequestRelease:
    @pytest.mark.parametrize("asked", ["", "m:1"])
    def test_the_holder_is_told_and_keeps_it(self, asked: str, side: Side) -> None:
        hears(side, NAME, "m")
        side.run(HELD)
        before = state(side, NAME)
        assert side.run(NAME.request_release(asked)) == Asked("m:1", FENCE)
        assert [payload for _, payload in side.heard()] == ["wanted m:1"]
        assert state(side, NAME) == before

    def test_another_is_not_told(self, side: Side) -> None:
        hears(side, NAME, "m")
        side.run(HELD)
        assert side.run(NAME.request_release("m:2")) == Asked("m:1", FENCE)
        assert not side.heard()

    def test_of_a_free_name_it_leaves_nothing(self, side: Side) -> None:
        assert side.run(NAME.request_release()) == Asked("", 0)
        side.run(HELD)
        expire(side, NAME)
        assert side.run(NAME.request_release()) == Asked("", 0)


class TestConfirm:
    """Of a quorum."""

    @pytest.mark.parametrize(("agreed", "done"), [(FENCE + 7, True), (FENCE - 1, False)])
    def test_the_agreed_fence_takes_the_place_of_what_was_minted(self, agreed: int, done: bool, side: Side) -> None:
        side.run(HELD)
        side.run(NAME.release("m:1", TTL, 0, "clean", False))
        call = NAME.acquire(Bid("m:2", TTL, FENCE + 2, ""))
        assert side.run(call) == Granted(FENCE + 3, TTL, abandoned=False)
        assert side.run(confirm(call, FENCE + 3, agreed)) is done
        assert state(side, NAME).fence == (agreed if done else FENCE + 3)
        assert side.run(confirm(call, FENCE + 3, agreed)) is done

    def test_it_is_for_the_holder_only(self, side: Side) -> None:
        assert side.run(confirm(HELD, FENCE, FENCE)) is False
        side.run(HELD)
        assert side.run(confirm(NAME.acquire(Bid("m:2", TTL, 0, "")), FENCE, FENCE)) is False
        assert side.run(confirm(HELD, FENCE - 1, FENCE + 1)) is False
        expire(side, NAME)
        assert side.run(confirm(HELD, FENCE, FENCE)) is False


class TestInfo:
    def test_free(self, side: Side) -> None:
        assert side.run(NAME.info()) == Standing(0, 0, 1, 0, 0, None, None)
        side.run(HELD)
        expire(side, NAME)
        assert side.run(NAME.info()).held is None

    def test_a_holder_and_waiters(self, side: Side) -> None:
        side.run(HELD)
        change(side, NAME, depth=0)
        enter(side, NAME, "n:1", "o:1")
        standing = side.run(NAME.info("o:1"))
        held = standing.held
        assert held is not None
        assert held == Held("m:1", 1, held.pttl, FENCE, "me")
        assert TTL - 10_000 < held.pttl <= TTL
        assert (standing.holders, standing.fence, standing.waiters, standing.rank) == (1, FENCE, 2, 2)
        assert side.run(NAME.info("m:1")).rank is None

    def test_waiters_for_a_free_name(self, side: Side) -> None:
        side.run(HELD)
        enter(side, NAME, "n:1")
        expire(side, NAME)
        standing = side.run(NAME.info("n:1"))
        assert standing == Standing(0, 0, 1, FENCE, 1, 1, None)
        assert waiters(side, NAME) == ["n:1"]


def test_a_frozen_head_costs_one_liveness(side: Side) -> None:
    """Hazard 2: it was granted the lock, and never confirmed. The next is told that nothing was abandoned."""
    hears(side, NAME, "n", "o")
    side.run(HELD)
    enter(side, NAME, "n:1", "o:1")
    side.run(NAME.release("m:1", TTL, 0, "clean", False))
    expire(side, NAME)
    forget(side, NAME, "n")
    (granted,) = side.run(NAME.refresh_many([NAME.alive_of("o:1", LIVENESS)]))
    assert granted == Granted(FENCE + 2, LIVENESS, abandoned=False)
    (late,) = side.run(renew([NAME.renewal("n:1", FENCE + 1, TTL)]))
    assert late == Missing(LossReason.TAKEN_OVER)
