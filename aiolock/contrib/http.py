"""What the client of a web service is told about an error: the same in all frameworks."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import AcquireTimeout, AiolockError, BackendError, LockLost, NotAcquired
from ..recipes.not_run import Gone, NotRun

ANSWERED: tuple[type[AiolockError], ...] = (LockLost, NotAcquired, BackendError)
"""The errors that `answer_to()` may have an answer to."""
BUSY = "Another request is in progress. Try again later."
LOST = "The lock was lost while your request ran: part of it may have been done."
GONE = "You did not wait for the answer."
AWAY = "The lock service is not available."


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response.

    Attributes:
        status: its code.
        detail: one sentence for the client. It names neither the lock nor its holder, which are yours.
        headers: its headers.
    """

    status: int
    detail: str
    headers: dict[str, str] = field(default_factory=dict)


def answer_to(error: Exception, *, busy: int = 409, retry_after: int = 1) -> Answer | None:
    """Return what to answer instead of "internal server error".

    - Another one has the lock: `busy`, with `Retry-After`.
    - Redis is unreachable, or this process shuts down, and nothing was done: 503, with `Retry-After`.
    - The client has gone, and nothing was done: 499, as nginx has it, for your logs.
    - The lock was lost while the handler ran: 503, without it, as you cannot know how far the handler came.

    Args:
        error: what the handler raised.
        busy: the status for a lock that is held: 409 ("conflict") or 423 ("locked").
        retry_after: seconds for `Retry-After`. The holder's ttl would be no better: a holder that lives renews it.

    Returns:
        None if the error is a mistake on your side, such as an ACL that refuses the request, or a handler that would
        wait for what it holds itself; and for all others.

    Example:
        ```python
        except ANSWERED as error:
            answer = answer_to(error)
            if answer is None:
                raise
            return Response(answer.detail, answer.status, answer.headers)
        ```
    """
    again = {"Retry-After": str(retry_after)}
    if isinstance(error, LockLost):
        return Answer(503, LOST)
    if isinstance(error, Gone):
        return Answer(499, GONE)
    if isinstance(error, AcquireTimeout):
        return Answer(busy, BUSY, again)
    if isinstance(error, NotAcquired) and error.transient:
        return Answer(503, AWAY, again)
    if isinstance(error, BackendError) and error.transient:
        return Answer(503, AWAY, again if isinstance(error, NotRun) else {})
    return None
