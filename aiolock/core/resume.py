"""A lease that another process detached becomes one of this process."""

from __future__ import annotations

import asyncio

from ..errors import ConfigurationError, LossReason, NotAcquired, NotOwned
from ..scripts.base import Call
from ..scripts.outcomes import Missing, TransferOutcome
from .gate import Gate
from .grant import Grant
from .kinds import KINDS
from .lease import Lease
from .policy import Policy
from .runtime import Runtime
from .ticket import Ticket
from .waiter import Unanswered


def check_kind(ticket: Ticket) -> None:
    """Raise unless leases of the ticket's kind can move.

    Raises:
        ConfigurationError: they cannot.
    """
    if ticket.kind not in KINDS:
        raise ConfigurationError(
            ticket.name,
            f"the ticket of lock {ticket.name!r} is of the kind {ticket.kind!r}, which this version cannot resume",
        )


async def resume(runtime: Runtime, policy: Policy, ticket: Ticket) -> Lease:
    """Take over what the ticket stands for, in one request; never waits for anybody."""
    runtime.check(ticket.name)
    kind = KINDS[ticket.kind]
    calls = kind.calls(runtime, ticket.name, ticket.weight, ticket.weight)
    gate = Gate.of(runtime, calls, kind.contention)

    def request(owner: str, metadata: str) -> Call[TransferOutcome]:
        floor = runtime.floor
        return calls.resume(ticket.owner, ticket.fence, owner, policy.ttl_ms, floor, metadata, ticket.tainted)

    waiter = gate.claim(calls, policy, request)
    try:
        outcome = await waiter.outcome
        if not isinstance(outcome, Grant):
            raise _worthless(ticket.name, outcome.reason if isinstance(outcome, Missing) else LossReason.TAKEN_OVER)
        moved = outcome.outcome
        if moved.weight:  # how much was moved, says the server: a ticket may say anything
            waiter.calls = kind.calls(runtime, ticket.name, moved.weight, moved.capacity)
        hold = gate.admit(waiter)
        if hold is None:
            raise NotAcquired(
                ticket.name,
                f"lock {ticket.name!r} was resumed too late, its ttl was nearly over when the answer came: released "
                "again; acquire it anew, with a longer ttl",
            )
        return gate.lease(hold, waiter.calls, asyncio.current_task())
    except Unanswered:
        gate.leave_queue(waiter)
        silence = runtime.unanswered(ticket.name, "resuming")
        raise silence from silence.__cause__
    except BaseException:
        gate.leave_queue(waiter)
        raise


def _worthless(name: str, reason: LossReason) -> NotOwned:
    if reason is LossReason.TAKEN_OVER:
        why = "somebody else holds the lock, so it was resumed before or came after its ttl"
    else:
        why = (
            "nobody holds the lock, so it was resumed and released, came after its ttl, was force-released, "
            "or the server lost its key"
        )
    return NotOwned(
        name,
        f"the ticket of lock {name!r} is worth nothing any more: {why}. Acquire the lock anew; "
        "lease.detach(ttl=...) gives a ticket more time",
    )
