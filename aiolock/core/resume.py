"""A lease that another process detached becomes one of this process."""

from __future__ import annotations

import asyncio

from ..errors import ConfigurationError, LossReason, NotAcquired, NotOwned
from ..scripts.base import DONT_QUEUE
from ..scripts.outcomes import Granted, Missing
from .acquisition import abandon, ask, own
from .calls import HandoffCalls
from .gate import Gate
from .kinds import KINDS
from .lease import Lease
from .policy import Policy
from .runtime import Runtime
from .ticket import Ticket
from .waiter import Expired, Grant, Waiter


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
    waiter = gate.join(calls, policy, DONT_QUEUE, contending=True)  # so no release of this process hands it the lock
    waiter.undoing = "dirty"  # what the ticket stood for was begun, and is not finished
    try:
        await _move(gate, calls, waiter, ticket)
        if not gate.accepts(waiter):
            raise NotAcquired(
                ticket.name,
                f"lock {ticket.name!r} was resumed too late, its ttl was nearly over when the answer came: released "
                "again; acquire it anew, with a longer ttl",
            )
    except BaseException:
        gate.leave_queue(waiter)
        raise
    lease = own(gate, waiter, asyncio.current_task())
    gate.recede()
    return lease


async def _move(gate: Gate, calls: HandoffCalls, waiter: Waiter, ticket: Ticket) -> None:
    runtime, name, policy = gate.runtime, gate.calls.name, waiter.policy
    call = calls.transfer(
        ticket.owner, ticket.fence, waiter.owner, policy.ttl_ms, runtime.floor, waiter.metadata, ticket.tainted
    )
    reply = ask(gate, waiter, call, runtime.clock.now() + runtime.limits.request_timeout)
    try:
        outcome = await reply
    except BaseException as error:
        abandon(gate, waiter, call)
        if isinstance(error, Expired):
            raise runtime.unanswered(name, "resuming") from None
        raise
    waiter.reply = None
    gate.answered = True
    if not isinstance(outcome, Granted):
        raise _worthless(name, outcome.reason if isinstance(outcome, Missing) else LossReason.TAKEN_OVER)
    if outcome.weight:  # how much was moved, says the server: a ticket may say anything
        waiter.calls = KINDS[ticket.kind].calls(runtime, name, outcome.weight, outcome.capacity)
    waiter.grant = Grant(outcome, call.sent_at, policy.margin)


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
