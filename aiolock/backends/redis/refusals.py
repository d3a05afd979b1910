"""What becomes of a request that the server refused: most never ran, and some can run elsewhere or later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import BackendError
from ...scripts.base import Call, drop
from .complaints import Complaints
from .failures import (
    NOT_READY,
    NOT_RUN,
    NOT_THE_MASTER,
    ErrorReply,
    Unasked,
    Unready,
    code_of,
    demoted,
    no_scripts,
    not_run_by,
    refused,
)
from .outbox import Outbox
from .session import Session

_MISSES = 3
"""How often a request that did not run is written again, before its maker decides."""

Elsewhere = Callable[[Call[Any], str, ErrorReply], bool]
"""Asked about a request that did not run, with the code of the server's error. Returns True if it takes the request
over: another server may run it. It is asked in the order of the requests.
"""


class Refusals:
    """Judges the error replies of one backend.

    Args:
        elsewhere: asked first.
        complaints: logs the warnings.
    """

    def __init__(self, elsewhere: Elsewhere | None, complaints: Complaints) -> None:
        self._elsewhere = elsewhere
        self._complaints = complaints

    def judge(self, request: Call[Any], refusal: Exception, session: Session | None, outbox: Outbox) -> None:
        """Settle `request`, or let it run again; `session` is the connection on which it came."""
        error = refusal if isinstance(refusal, ErrorReply) else ErrorReply(str(refusal))
        code, command = code_of(error), not_run_by(error)
        if code == "NOSCRIPT" or command == "evalsha":
            self._bring_script(request, error, session, outbox)
            return
        if command:
            request.end(no_scripts(request.name, request.doing, error))
            return
        if isinstance(error, Unasked):
            self._complaints.make(
                "ASKING was refused (%s): requests for a name whose slot is being moved here wait until it has moved; "
                "allow the user `+asking`", error.why,
            )  # fmt: skip
        if code in NOT_RUN:
            request.writes -= 1
            if self._elsewhere is not None and self._elsewhere(request, code, error):
                return
            if session is not None and (code in NOT_THE_MASTER or code in NOT_READY):
                session.abandon(Unready(code) if code in NOT_READY else demoted(error))
                request.misses += 1
                if request.misses <= _MISSES:
                    outbox.put_back(request)
                    return
            request.writes += 1
        request.end(refused(request.name, request.doing, error, request.script.lua))

    def _bring_script(self, request: Call[Any], error: ErrorReply, session: Session | None, outbox: Outbox) -> None:
        """The server does not have the script, or no longer; or it runs none by its digest. Nothing has run."""
        request.misses += 1
        failure = BackendError(
            request.name,
            f"Redis does not keep the script of {request.doing}: does anything flush its scripts again and again, or "
            "does a proxy spread requests over several servers?",
            transient=True,
        )
        failure.__cause__ = error
        if session is None or request.misses > _MISSES:
            request.end(failure)
            return
        session.scripts.missing(request.script.sha)
        self._forgo(error, session)
        if request.unanswered is drop:  # no one has withdrawn it
            request.writes -= 1
            outbox.put_back(request)
        else:
            outbox.unanswered(request, failure, unrun=True)
        session.wake()

    def _forgo(self, error: ErrorReply, session: Session) -> None:
        """Do without a command that the server refuses."""
        if not_run_by(error):
            session.scripts.no_digests()
            self._complaints.make(
                "EVALSHA was refused (%s): every request carries the text of its script, some kilobytes; allow the "
                "user `+evalsha` and `+script|load`, or undo their renaming", error,
            )  # fmt: skip
        elif session.scripts.refusal is not None:
            self._complaints.make(
                "SCRIPT LOAD was refused (%s): the first request of each script carries its text; allow the user "
                "`+script|load`, or undo its renaming", session.scripts.refusal,
            )  # fmt: skip
