"""One call put to every node, and the answer of their majority."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Generic, TypeVar

from ...clock import Timer
from ...errors import BackendError, QuorumError
from ...scripts.base import Arg, Call
from ..memory import finish
from .node import Node
from .panel import Panel
from .verdicts import Rule, Tally

R = TypeVar("R")

LATECOMERS = 0.02
"""Seconds for answers that came while the event loop was too busy to read them, and to see that time was over."""


class Vote(Call[R]):
    """One node's copy of a call.

    Attributes:
        node: who is asked.
        answer: what it said, or why not; None until then. In a tuple, as None is an answer, too.
    """

    __slots__ = ("answer", "node")

    def __init__(self, whole: Call[R], node: Node, args: tuple[Arg, ...]) -> None:
        super().__init__(whole.name, whole.script, whole.keys, args)
        self.node: Node = node
        self.answer: tuple[R | BackendError] | None = None

    @property
    def pending(self) -> bool:
        """Neither answered nor failed."""
        return self.answer is None


class Ballot(Generic[R]):
    """One call on its way to all nodes. To its maker it behaves as on one server: settled once, and in order.

    Args:
        panel: the nodes.
        whole: the call.
        rule: what their answers mean.
        patience: seconds until what has not answered counts as failed.
    """

    def __init__(self, panel: Panel, whole: Call[R], rule: Rule[R], patience: float) -> None:
        self.panel: Panel = panel
        self.whole: Call[R] = whole
        self.future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.votes: list[Vote[R]] = []
        self.decided: bool = False
        self.until: float = math.inf
        self._patience = patience
        self._rule = rule
        self._timer: Timer | None = None

    def put(self) -> asyncio.Future[R]:
        """Ask every node, now."""
        self.whole.writes += 1  # a node may see it: from here on it cannot be taken back
        self.votes = [Vote(self.whole, node, self.args()) for node in self.panel.nodes]
        for vote in self.votes:
            vote.settle = partial(self._heard, vote)
            vote.unanswered = partial(self.again, vote)
            vote.node.run(vote)
        self.watch(self._patience)
        return self.future

    def args(self) -> tuple[Arg, ...]:
        """ARGV for each node."""
        return tuple(self.whole.args)

    def again(self, vote: Vote[R]) -> bool:
        """A connection died under `vote`: whether it is written again."""
        return not self.decided and self.whole.unanswered()

    def counted(self, vote: Vote[R]) -> None:
        """`vote` was answered, before or after the decision."""

    def judge(self, overdue: bool) -> None:
        """Decide, if that is possible.

        Args:
            overdue: what has not answered yet counts as failed.
        """
        answers, final = self.answers(), self.final(overdue)
        verdict = self._rule(Tally(self.panel, answers, final))
        if verdict is not None:
            self.decide(verdict[0])
        elif final:
            self.decide(self.failure())

    def answers(self) -> list[tuple[float, R]]:
        """What the nodes said, and when each was asked."""
        return [
            (vote.sent_at, vote.answer[0])
            for vote in self.votes
            if vote.answer is not None and not isinstance(vote.answer[0], BackendError)
        ]

    def final(self, overdue: bool) -> bool:
        """No more answers will come in time."""
        pending = [vote for vote in self.votes if vote.pending]
        answered = len(self.answers())
        if not pending or overdue or self.panel.hopeless(len(self.votes) - answered - len(pending)):
            return True
        # Once a majority has spoken, nobody waits for a node that has no connection, or was silent before.
        return answered >= self.panel.quorum and all(vote.node.suspect or not vote.writes for vote in pending)

    def decide(self, result: R | BackendError) -> None:
        """The end, for the call's maker."""
        self.decided = True
        self.whole.sent_at = min((sent_at for sent_at, _ in self.answers()), default=self.panel.clock.now())
        self.over()
        finish(self.whole, self.future, result)

    def over(self) -> None:
        """Decided: nothing is waited for any more, and what no node has seen yet it need not see."""
        self.unwatch()
        for vote in self.votes:
            if vote.pending:
                vote.withdraw()

    def failure(self) -> BackendError:
        """No majority has answered, or none of one mind."""
        outcomes = tuple(f"{vote.node.label}: {self.describe(vote)}" for vote in self.votes)
        failures = [vote.answer[0] for vote in self.votes if vote.answer and isinstance(vote.answer[0], BackendError)]
        lasting = sum(not failure.transient for failure in failures)
        of = f" of lock {self.whole.name!r}" if self.whole.name else ""
        error = QuorumError(
            self.whole.name,
            f"{self.whole.script.name}{of} needs {self.panel.quorum} of {len(self.votes)} nodes, and has no majority: "
            + "; ".join(outcomes),
            transient=not self.panel.hopeless(lasting),
            outcomes=outcomes,
        )
        error.__cause__ = next(iter(failures), None)
        return error

    def describe(self, vote: Vote[R]) -> str:
        """What became of `vote`, for people."""
        if vote.answer is None:
            return "no answer in time" if self.panel.clock.now() >= self.until else "no answer yet"
        return str(vote.answer[0]) if isinstance(vote.answer[0], BackendError) else "answered"

    def watch(self, patience: float) -> None:
        """From now on there are so many seconds."""
        self.unwatch()
        self.until = self.panel.clock.now() + patience
        self._timer = self.panel.clock.call_at(self.until, self._late)

    def unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def overdue(self) -> None:
        """Time is over."""
        for vote in self.votes:
            if vote.pending:
                vote.node.suspect = True
        self.judge(overdue=True)

    def _late(self) -> None:
        clock = self.panel.clock
        self._timer = clock.call_at(clock.now() + LATECOMERS, self.overdue)

    def _heard(self, vote: Vote[R], result: R | BackendError) -> None:
        vote.answer = (result,)
        vote.node.suspect = isinstance(result, BackendError)
        self.counted(vote)
        if not self.decided:
            self.judge(overdue=False)
