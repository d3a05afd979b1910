"""The end of an owner on every node: each is told until it answers, or must have forgotten the lock by itself."""

from __future__ import annotations

from ...errors import BackendError
from ...scripts.base import Arg, Call
from ...scripts.keys import DIRTY_MS, GRACE_MS
from ...scripts.lock import ReleaseArgs
from ...scripts.outcomes import ReleaseOutcome
from .majority import released
from .members import Members
from .request import MemberRequest, QuorumRequest


class QuorumRelease(QuorumRequest[ReleaseOutcome]):
    """A release. The majority's answer is the call's; the other nodes are told anyway.

    Args:
        members: the nodes.
        whole: the call.
    """

    def __init__(self, members: Members, whole: Call[ReleaseOutcome]) -> None:
        args = ReleaseArgs.of(whole)
        super().__init__(members, whole, released, max(0, args.clean_ms - GRACE_MS) / 1000)
        self._owner = args.owner
        self._silent = args.owner not in members.granted
        if args.left == 0:
            members.asking.discard(args.owner)

    def args(self) -> tuple[Arg, ...]:
        args = ReleaseArgs.of(self.whole)
        # Skewed nodes must remember fences for longer than one server remembers a clean name. And a lock that only a
        # minority had granted frees nothing: no one is notified.
        return args._replace(clean_ms=max(args.clean_ms, DIRTY_MS), channel="" if self._silent else args.channel)

    def again(self, request: MemberRequest[ReleaseOutcome]) -> bool:
        self.whole.unanswered()
        request.args = self.args()  # it may leave a tombstone from now on
        return self.members.clock.now() < self.until

    def on_answer(self, request: MemberRequest[ReleaseOutcome]) -> None:
        if self.decided and not any(request.pending for request in self.requests):
            self.unwatch()

    def final(self, overdue: bool) -> bool:
        # Wait for a node that is unreachable: it alone may know, and asking all of them again would not help.
        pending = sum(request.pending for request in self.requests)
        failed = len(self.requests) - len(self.answers()) - pending
        return overdue or not pending or self.members.hopeless(failed)

    def failure(self) -> BackendError:
        self.whole.unanswered()  # some nodes may have done it: the next attempt must expect that
        return super().failure()

    def over(self) -> None:
        if ReleaseArgs.of(self.whole).left == 0 and len(self.answers()) >= self.members.quorum:
            self.members.granted.discard(self._owner)
        if not any(request.pending for request in self.requests):
            self.unwatch()

    def judge(self, overdue: bool) -> None:
        if not overdue:
            super().judge(overdue)
            return
        for request in self.requests:
            if request.pending:
                request.withdraw()
        self.members.granted.discard(self._owner)
        if not self.decided:
            super().judge(overdue)
