"""What becomes of a request that the server refused: most never ran, and some can run elsewhere or later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import BackendError
from .error_reply import ErrorReply
from .failures import NOT_RUN, NOT_THE_MASTER, code_of, demoted, refused
from .outbox import Outbox
from .requests import Request
from .session import Session

_MISSES = 3
"""How often a request that did not run is written again, before its maker decides."""

Elsewhere = Callable[[Request[Any], str, ErrorReply], bool]
"""Asked about a request that did not run, with the code of the server's error. Returns True if it takes the request
over: another server may run it. It is asked in the order of the requests.
"""


class Refusals:
    """Judges the error replies of one backend.

    Args:
        elsewhere: asked first.
    """

    def __init__(self, elsewhere: Elsewhere | None = None) -> None:
        self._elsewhere = elsewhere

    def judge(self, request: Request[Any], error: ErrorReply, session: Session | None, outbox: Outbox) -> None:
        """Settle `request`, or let it run again; `session` is the connection on which `error` came."""
        code = code_of(error)
        if code == "NOSCRIPT":
            self._load(request, error, session, outbox)
            return
        if code in NOT_RUN:
            request.call.writes -= 1
            if self._elsewhere is not None and self._elsewhere(request, code, error):
                return
            if code in NOT_THE_MASTER and session is not None:
                session.abandon(demoted(error))
                request.misses += 1
                if request.misses <= _MISSES:
                    outbox.put_back(request)
                    return
            request.call.writes += 1
        request.settle(refused(request.call.name, request.doing, error))

    def _load(self, request: Request[Any], error: ErrorReply, session: Session | None, outbox: Outbox) -> None:
        """The server does not have the script, or no longer."""
        call = request.call
        request.misses += 1
        refusal = session.scripts.refusals.get(call.script.sha) if session is not None else None
        if refusal is not None:
            request.settle(refused(call.name, f"SCRIPT LOAD for {request.doing}", refusal))
            return
        failure = BackendError(
            call.name,
            f"Redis does not keep the script of {request.doing}: does anything flush its scripts again and again, or "
            "does a proxy spread requests over several servers?",
            transient=True,
        )
        failure.__cause__ = error
        if session is None or request.misses > _MISSES:
            request.settle(failure)
            return
        session.scripts.missing(call.script.sha)
        outbox.unanswered(request, failure)
        session.wake()
