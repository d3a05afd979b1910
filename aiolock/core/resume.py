"""Continues a lease: one that another process detached, or one that was released to wait for a condition."""

from __future__ import annotations

import asyncio

from ..errors import ConfigurationError, LossReason, NotAcquired, NotOwned
from ..scripts.base import Call
from ..scripts.bid import Bid
from ..scripts.outcomes import Granted, Missing, TransferOutcome
from .acquisition import admit, obtain
from .gate import Gate
from .guarding.guard import Guard
from .holding.level import Watcher
from .holding.telling import tell_failed
from .holding.ticket import Ticket
from .lease import Lease
from .policy import Policy
from .runtime import KINDS, Runtime
from .waiting.waiter import Expired


def read(runtime: Runtime, text: str) -> Ticket:
    """Return the ticket that a manager gets, if it can resume that.

    Raises:
        ConfigurationError: no ticket, or one of another namespace, database or kind; or its store has no tickets.
    """
    ticket = Ticket.read(text)
    runtime.backend.abilities.need_scripts(ticket.name, "tickets")
    ticket.check_home(runtime.keys)
    if ticket.kind not in KINDS:
        raise ConfigurationError(
            ticket.name,
            f"the ticket of lock {ticket.name!r} is of the kind {ticket.kind!r}, which this version cannot resume",
        )
    return ticket


async def resume(runtime: Runtime, policy: Policy, ticket: Ticket) -> Lease:
    """Take over what the ticket stands for, in one request; never waits."""
    runtime.binding.check(ticket.name)
    kind = KINDS[ticket.kind]
    calls = kind.calls(runtime, ticket.name, ticket.weight, ticket.weight)
    gate = Gate.of(runtime, calls, kind.contention)

    def request(bid: Bid) -> Call[TransferOutcome]:
        return calls.resume(ticket.owner, ticket.fence, bid, ticket.tainted)

    waiter = gate.claim(calls, policy, request)
    try:
        outcome = await waiter.outcome
        if not isinstance(outcome, Granted):
            raise worthless(ticket.name, outcome.reason if isinstance(outcome, Missing) else LossReason.TAKEN_OVER)
        if outcome.weight:  # the server says how much was moved: a ticket may say anything
            assert waiter.hold is not None
            waiter.hold.calls = waiter.calls = kind.calls(runtime, ticket.name, outcome.weight, outcome.capacity)
        lease = admit(gate, waiter, asyncio.current_task())
        if lease is None:
            raise NotAcquired(
                ticket.name,
                f"lock {ticket.name!r} was resumed too late: its ttl was nearly over when the answer came. It was "
                "released again; acquire it again, with a longer ttl",
            )
        return lease
    except Expired as late:
        gate.leave(waiter)
        silence = runtime.unanswered(ticket.name, "resuming", away=late.away)
        tell_failed(runtime, calls, silence, waiter.began, requests=0)
        raise silence from silence.__cause__
    except BaseException as error:
        gate.leave(waiter)
        tell_failed(runtime, calls, error, waiter.began, requests=1)
        raise


def worthless(name: str, reason: LossReason) -> NotOwned:
    """Return the error for a ticket that stands for nothing any more."""
    if reason is LossReason.TAKEN_OVER:
        why = "another owner holds the lock, so the ticket was already resumed or came after its ttl"
    else:
        why = (
            "the lock is free, so it was resumed and released, the ticket came after its ttl, it was force-released, "
            "or the server lost its key"
        )
    return NotOwned(
        name,
        f"the ticket of lock {name!r} is no longer valid: {why}. Acquire the lock again; "
        "lease.detach(ttl=...) lets a ticket live longer",
    )


async def reacquire(lease: Lease, watchers: tuple[Watcher, ...]) -> None:
    """Acquire again what `lease` had, however long that takes; it continues with a new hold, as does its block.

    Args:
        lease: the running task's, released, the only one of its hold.
        watchers: who watched it, and goes on with that.

    Raises:
        BackendError, NotAcquired: as an acquire. The lease stays released.

    Cancellation: the lease stays released.
    """
    home, before = lease._gate, lease._result
    gate = Gate.of(home.runtime, home.calls, home.contention, home)  # another task may have a newer one by now
    fresh = await obtain(gate, lease._calls, lease._hold.policy, None)
    gate.runtime.leases.remove(fresh)
    fresh._result = before  # it was only needed to get here
    lease._gate, lease._hold, lease._result = gate, fresh._hold, None
    gate.runtime.leases.add(lease)
    guard = lease._guard
    if isinstance(guard, Guard):
        guard.resume()
    lease._hold.take_over(watchers)
