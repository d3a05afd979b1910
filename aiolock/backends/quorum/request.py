"""One call sent to every node, and the answer of their majority."""

from __future__ import annotations

import math
from functools import partial
from typing import Generic, TypeVar

from ...clock import Timer
from ...errors import AiolockError, BackendError, QuorumError
from ...scripts.base import Arg, Call
from .majority import Rule, Tally
from .members import Members
from .node import Node

R = TypeVar("R")

LATECOMERS = 0.02
"""Seconds for answers that came while the event loop was too busy to read them, and to notice that time was over."""


class MemberRequest(Call[R]):
    """One node's copy of a call.

    Attributes:
        node: the node that is asked.
        said: what it answered, or why it did not; None until then. In a tuple, because None is an answer, too.
    """

    __slots__ = ("node", "said")

    def __init__(self, whole: Call[R], node: Node, args: tuple[Arg, ...]) -> None:
        super().__init__(whole.name, whole.script, whole.keys, args)
        self.node: Node = node
        self.said: tuple[R | BackendError] | None = None

    @property
    def pending(self) -> bool:
        """Whether it has neither answered nor failed."""
        return self.said is None


class QuorumRequest(Generic[R]):
    """One call on its way to all nodes. For its maker it behaves as on one server: settled once, and in order.

    Args:
        members: the nodes.
        whole: the call.
        rule: what their answers mean.
        patience: seconds after which a missing answer counts as a failure.
    """

    def __init__(self, members: Members, whole: Call[R], rule: Rule[R], patience: float) -> None:
        self.members: Members = members
        self.whole: Call[R] = whole
        self.requests: list[MemberRequest[R]] = []
        self.decided: bool = False
        self.until: float = math.inf
        self._patience = patience
        self._rule = rule
        self._timer: Timer | None = None

    def send(self) -> None:
        """Ask every node, now."""
        self.whole.writes += 1  # a node may see it: from here on it cannot be withdrawn
        self.requests = [MemberRequest(self.whole, node, self.args()) for node in self.members.nodes]
        for request in self.requests:
            request.settle = partial(self._heard, request)
            request.unanswered = partial(self.again, request)
            request.away = None if self.whole.away is None else partial(self._unreachable, request)
            request.node.post(request)
        self.watch(self._patience)

    def args(self) -> tuple[Arg, ...]:
        """ARGV for each node."""
        return tuple(self.whole.args)

    def again(self, request: MemberRequest[R]) -> bool:
        """A connection died under `request`: return whether it is written again."""
        return not self.decided and self.whole.unanswered()

    def on_answer(self, request: MemberRequest[R]) -> None:
        """`request` was answered, before or after the decision."""

    def judge(self, overdue: bool) -> None:
        """Decide, if possible.

        Args:
            overdue: a missing answer counts as a failure.
        """
        answers, final = self.answers(), self.final(overdue)
        verdict = self._rule(Tally(self.members, answers, final))
        if verdict is not None:
            self.decide(verdict[0])
        elif final:
            self.decide(self.failure())

    def answers(self) -> list[tuple[float, R]]:
        """What the nodes said, and when each was asked."""
        return [
            (request.sent_at, request.said[0])
            for request in self.requests
            if request.said is not None and not isinstance(request.said[0], BackendError)
        ]

    def final(self, overdue: bool) -> bool:
        """Whether no more answers will come in time."""
        pending = [request for request in self.requests if request.pending]
        answered = len(self.answers())
        if not pending or overdue or self.members.hopeless(len(self.requests) - answered - len(pending)):
            return True
        # Once a majority has answered, do not wait for a node that has no connection, or was silent before.
        return answered >= self.members.quorum and all(
            request.node.suspect or not request.writes for request in pending
        )

    def decide(self, result: R | BackendError) -> None:
        """End the call for its maker."""
        self.decided = True
        self.whole.sent_at = min((sent_at for sent_at, _ in self.answers()), default=self.members.clock.now())
        self.over()
        self.whole.end(result)

    def over(self) -> None:
        """It is decided: wait for nothing more, and withdraw what no node has seen yet."""
        self.unwatch()
        for request in self.requests:
            if request.pending:
                request.withdraw()

    def failure(self) -> BackendError:
        """The error if no majority has answered, or none agrees."""
        outcomes = tuple(f"{request.node.label}: {self.describe(request)}" for request in self.requests)
        failures = [
            request.said[0] for request in self.requests if request.said and isinstance(request.said[0], BackendError)
        ]
        lasting = sum(not failure.transient for failure in failures)
        of = f" of lock {self.whole.name!r}" if self.whole.name else ""
        error = QuorumError(
            self.whole.name,
            f"{self.whole.script.name}{of} needs {self.members.quorum} of {len(self.requests)} nodes, "
            "and has no majority: " + "; ".join(outcomes),
            transient=not self.members.hopeless(lasting),
            outcomes=outcomes,
        )
        away = (request.node.unreachable for request in self.requests if request.pending)
        error.__cause__ = next((known for known in (*failures, *away) if known is not None), None)
        return error

    def describe(self, request: MemberRequest[R]) -> str:
        """What became of `request`, for people."""
        if request.said is None and request.node.unreachable is not None:
            return str(request.node.unreachable)
        if request.said is None:
            return "no answer in time" if self.members.clock.now() >= self.until else "no answer yet"
        return str(request.said[0]) if isinstance(request.said[0], BackendError) else "answered"

    def watch(self, patience: float) -> None:
        """Give the answers this many seconds from now on."""
        self.unwatch()
        self.until = self.members.clock.now() + patience
        self._timer = self.members.clock.call_at(self.until, self._late)

    def unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def overdue(self) -> None:
        """The time is over."""
        for request in self.requests:
            if request.pending:
                request.node.suspect = True
        self.judge(overdue=True)

    def _late(self) -> None:
        clock = self.members.clock
        self._timer = clock.call_at(clock.now() + LATECOMERS, self.overdue)

    def _unreachable(self, request: MemberRequest[R], known: AiolockError) -> None:
        if request.pending and request.withdraw():
            request.settle = None
            self._heard(request, BackendError(request.name, str(known), transient=True))

    def _heard(self, request: MemberRequest[R], result: R | BackendError) -> None:
        request.said = (result,)
        request.node.suspect = isinstance(result, BackendError)
        self.on_answer(request)
        if not self.decided:
            self.judge(overdue=False)
