"""Why a decorated function, or the job of a window, was not run.

NotRun                              it did not begin, so nothing of it happened
├─ Busy(AcquireTimeout)             another one runs; `holder` says who
├─ Unavailable(BackendError)        Redis could not be asked
└─ Gone(NotAcquired)                the client of the request does not wait for it any more
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import AcquireTimeout, AiolockError, BackendError, NotAcquired


class NotRun(AiolockError):
    """The function was not run: nothing of it happened. No error of its body is one of these, unless it calls another
    decorated function: then `name` tells whose it is.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
    """


class Busy(NotRun, AcquireTimeout):
    """Another one has the lock.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
        holder: who has it.
    """


class Unavailable(NotRun, BackendError):
    """Redis is unreachable or refuses; its error is `__cause__`.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
        transient: True if the same call may succeed later.
    """


class Gone(NotRun, NotAcquired):
    """The client of the request went while this waited for its lock, so nobody wants the result.

    Attributes:
        name: the lock's name.
        message: what happened and what to do about it.
        transient: True.
    """


@contextmanager
def before_it_runs() -> Iterator[None]:
    """Make a `BackendError` of the block an `Unavailable`."""
    try:
        yield
    except BackendError as error:
        raise Unavailable(error.name, error.message, error.transient) from error.__cause__
