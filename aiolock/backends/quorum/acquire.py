"""An outermost acquire: a majority grants it, then a majority confirms its fence; otherwise it gets nothing."""

from __future__ import annotations

from collections import Counter
from functools import partial

from ...errors import BackendError
from ...scripts.base import Call
from ...scripts.keys import GRACE_MS
from ...scripts.lock import RELEASE, AcquireArgs, ReleaseArgs, confirm
from ...scripts.outcomes import AcquireOutcome, Finished, Granted, Refused
from .majority import Tally
from .members import Members
from .request import MemberRequest, QuorumRequest

Confirmation = bool | BackendError


class QuorumAcquire(QuorumRequest[AcquireOutcome]):
    """Two rounds, each decided as soon as a majority has answered.

    First every node is asked for the lock. Each mints a fence of its own; the lock's fence is the greatest that the
    first majority minted. Then every node that minted another is told this one, and the owner enters once a majority
    stores it: the next owner to acquire meets one of these nodes, and gets a greater one.

    Source: ABD, the write-back of a read (Attiya, Bar-Noy, Dolev 1995).

    Args:
        members: the nodes.
        whole: the call.
    """

    def __init__(self, members: Members, whole: Call[AcquireOutcome]) -> None:
        args = AcquireArgs.of(whole)
        self._timeout = members.timeout(args.ttl_ms / 1000)
        super().__init__(members, whole, _undecided, self._timeout)
        self._args = args
        members.asking.add(args.owner)
        self._began = members.clock.now()
        self._fence = 0
        self._confirmed: dict[MemberRequest[AcquireOutcome], Confirmation] = {}

    def again(self, request: MemberRequest[AcquireOutcome]) -> bool:
        """Never repeat it: the lost copy may run on that node, so a release follows that ends the owner there for
        good.
        """
        grace = self._args.ttl_ms + GRACE_MS
        keys = request.keys  # as release does
        args = ReleaseArgs(self._args.owner, grace, self._args.managers, "undone", 0, grace)
        end = Call(request.name, RELEASE, keys, args, lambda: self.members.clock.now() < self._began + grace / 1000)
        end.settle = _ignore
        request.node.post(end)
        return False

    def on_answer(self, request: MemberRequest[AcquireOutcome]) -> None:
        # Even after the decision: a node that was slow is one more that keeps the lock.
        if self._fence:
            self._confirm(request)

    def judge(self, overdue: bool) -> None:
        if self._args.owner not in self.members.asking:  # its undo was written after it
            self.decide(BackendError(self.whole.name, "no task waits for it any more", transient=True))
            return
        granted = self._granted()
        if not self._fence and len(granted) >= self.members.quorum:
            self._agree(granted)
        elif self._fence:
            self._judge_confirmed(overdue)
        elif self.final(overdue):
            self.decide(self._refused())

    def over(self) -> None:
        super().over()
        self.members.asking.discard(self._args.owner)

    def describe(self, request: MemberRequest[AcquireOutcome]) -> str:
        if request.said is None or isinstance(request.said[0], BackendError):
            return super().describe(request)
        outcome = type(request.said[0]).__name__.lower()
        confirmed = self._confirmed.get(request)
        if not self._fence or not self._may_grant(request) or confirmed is True:
            return outcome
        return f"{outcome}, and did not confirm the fence: {confirmed or 'no answer in time'}"

    def _granted(self) -> list[tuple[MemberRequest[AcquireOutcome], Granted]]:
        outcomes = ((request, request.said[0]) for request in self.requests if request.said is not None)
        return [(request, outcome) for request, outcome in outcomes if isinstance(outcome, Granted)]

    def _agree(self, granted: list[tuple[MemberRequest[AcquireOutcome], Granted]]) -> None:
        self.members.pace = self.members.clock.now() - self._began
        self.members.granted.add(self._args.owner)
        self._fence = max(grant.fence for _, grant in granted)
        self.watch(self._timeout)
        for request, _ in granted:
            self._confirm(request)
        self._judge_confirmed(overdue=False)

    def _confirm(self, request: MemberRequest[AcquireOutcome]) -> None:
        grant = request.said[0] if request.said is not None else None
        if not isinstance(grant, Granted) or request in self._confirmed:
            return
        if grant.fence == self._fence:
            self._confirmed[request] = True
            return
        call = confirm(self.whole, grant.fence, self._fence)
        expiry = request.sent_at + grant.pttl / 1000
        call.unanswered = lambda: self.members.clock.now() < expiry
        call.settle = partial(self._heard_confirmed, request)
        request.node.post(call)

    def _heard_confirmed(self, request: MemberRequest[AcquireOutcome], result: Confirmation) -> None:
        self._confirmed[request] = result
        if not self.decided:
            self.judge(overdue=False)

    def _judge_confirmed(self, overdue: bool) -> None:
        confirmed = [(request, grant) for request, grant in self._granted() if self._confirmed.get(request) is True]
        if len(confirmed) >= self.members.quorum:
            tally = Tally(self.members, self.answers(), True)
            pttl = tally.lasting([(request.sent_at, grant.pttl) for request, grant in confirmed])
            abandoned = any(grant.abandoned for _, grant in confirmed)
            self.decide(Granted(self._fence, pttl, abandoned))
            return
        gone = sum(self._confirmed.get(request) is False or not self._may_grant(request) for request in self.requests)
        silent = sum(isinstance(self._confirmed.get(request), BackendError) for request in self.requests)
        if overdue or self.members.hopeless(gone + silent):
            split = self.members.hopeless(gone) and not self.members.hopeless(self._failures())
            self.decide(Refused(0, self._fence, "", spent=True) if split else self.failure())

    def _may_grant(self, request: MemberRequest[AcquireOutcome]) -> bool:
        return request.said is None or isinstance(request.said[0], Granted)

    def _failures(self) -> int:
        return len(self.requests) - len(self.answers())

    def _refused(self) -> AcquireOutcome | BackendError:
        outcomes = [outcome for _, outcome in self.answers()]
        if len(outcomes) < self.members.quorum:
            return self.failure()
        if any(isinstance(outcome, Finished) for outcome in outcomes):
            return Finished()
        refusals = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        # A majority has a confirmed fence; other refusals come from rivals that have no more than we have.
        fences = Counter(refusal.fence for refusal in refusals)
        fence, count = fences.most_common(1)[0] if fences else (0, 0)
        highest = max(fences, default=0)
        holder = next((refusal.holder for refusal in refusals if refusal.fence == fence), "")
        if count < self.members.quorum:
            return Refused(0, highest, holder, spent=True)
        nowhere = len(refusals) == sum(request.writes > 0 for request in self.requests)
        return Refused(self._free_in(refusals), highest, holder, spent=not nowhere)

    def _free_in(self, refusals: list[Refused]) -> int:
        """Milliseconds until a majority of the nodes has no holder, if none renews."""
        times = [0] * (len(self.answers()) - len(refusals)) + [refusal.pttl for refusal in refusals]
        return max(1, sorted(times)[self.members.quorum - 1])


def _undecided(_: Tally[AcquireOutcome]) -> None:
    """Also wait for the second round: the result depends on its answers, too."""


def _ignore(_: object) -> None:
    pass
