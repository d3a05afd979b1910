"""What redis-py raises, as `BackendError`: what it means, whether a repetition can help, and what to do."""

from __future__ import annotations

import re

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from ...errors import AiolockError, BackendError, ConfigurationError
from .error_reply import ErrorReply

PASSING = frozenset(
    {
        "BUSY",
        "CLUSTERDOWN",
        "LOADING",
        "MASTERDOWN",
        "MISCONF",
        "NOREPLICAS",
        "OOM",
        "READONLY",
        "TRYAGAIN",
        "UNBLOCKED",
    }
)
"""Error codes that say nothing about the lock: the same call may succeed later."""

NOT_THE_MASTER = frozenset({"READONLY", "MASTERDOWN"})
"""Error codes of a server that has become a replica."""

NOT_RUN = NOT_THE_MASTER | {"ASK", "CLUSTERDOWN", "LOADING", "MOVED", "NOREPLICAS", "TRYAGAIN"}
"""Error codes that come before anything has run."""

_CLUSTER = "it is part of a cluster: use LockManager.cluster([url, …])"
_REMEDIES = {
    "BUSY": "a script has been running for too long on the server",
    "LOADING": "it is still loading its data",
    "MISCONF": "it cannot persist: see its log",
    "MOVED": _CLUSTER,
    "ASK": _CLUSTER,
    "CROSSSLOT": _CLUSTER,
    "NOAUTH": "check username and password",
    "NOPERM": "allow the user in the ACL what is named here",
    "OOM": "it is out of memory: raise maxmemory",
    "READONLY": "it is a replica: connect to the master",
    "WRONGTYPE": "the key of this lock already holds another type: choose another name or namespace",
    "WRONGPASS": "check username and password",
}
_NESTED = re.compile(r"user_script: ?\d+: -?([A-Z]+) ")  # before Redis 7 the error of any script is wrapped in text
_DENIED_IN_SCRIPT = re.compile("user executing the script can't run this command|ACL failure in script")


def code_of(error: ErrorReply) -> str:
    """The server's code, `""` if there is none."""
    text = str(error)
    nested = _NESTED.search(text)
    if nested is not None:
        return nested.group(1)
    if _DENIED_IN_SCRIPT.search(text):
        return "NOPERM"
    code = text.partition(" ")[0]
    return code if code.isupper() else ""


def refused(name: str, doing: str, error: ErrorReply) -> BackendError:
    """Return the error for an error reply.

    Args:
        name: the lock's name.
        doing: what was asked of the server, for the message.
        error: the reply.
    """
    code = code_of(error)
    text = str(error)
    if code and code not in text:
        text = f"{code} {text}"
    remedy = _REMEDIES.get(code)
    failure = BackendError(
        name, f"Redis refused {doing}: {text}{f' ({remedy})' if remedy else ''}", transient=code in PASSING
    )
    failure.__cause__ = error
    return failure


def lost(name: str, doing: str, cause: BaseException | None) -> BackendError:
    """The connection was lost before the answer came."""
    why = "" if cause is None else f" ({type(cause).__name__}: {cause})"
    failure = BackendError(
        name,
        f"the connection to Redis was lost{why} before {doing} was answered: it may have run or not; try again",
        transient=True,
    )
    failure.__cause__ = cause
    return failure


def disconnected(cause: BaseException) -> BackendError:
    """The connection was lost, and there is no other yet."""
    failure = BackendError(
        "",
        f"the connection to Redis was lost ({type(cause).__name__}: {cause}), and a new one is being made",
        transient=True,
    )
    failure.__cause__ = cause
    return failure


class Misplaced(Exception):
    """The server that was reached is a replica: the master may be at this address again soon, or at another."""


def demoted(error: ErrorReply) -> Misplaced:
    """Why the connection is given up: the server said `error` to a request."""
    return Misplaced(f"the server is no longer the master: {error}")


def without_frames(error: AiolockError) -> AiolockError:
    """Return `error` without its traceback: those frames would keep connections alive that are gone."""
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__cause__ or one.__context__
    return error


def unconnected(error: BaseException) -> AiolockError:
    """Why a connection could not be made. `error` becomes its cause."""
    cause = error.__cause__
    if type(error) is ConnectionError and isinstance(cause, (RedisError, AiolockError)):
        error = cause  # redis-py wraps errors on a unix socket
    if isinstance(error, AiolockError):
        return error
    failure = _unconnected(error)
    failure.__cause__ = error
    return failure


def _unconnected(error: BaseException) -> AiolockError:
    text = str(error)
    if isinstance(error, Misplaced):
        return BackendError("", text, transient=True)
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return BackendError("", f"Redis refused the credentials: {text}: check username, password and ACL")
    if isinstance(error, ResponseError) and ("NOPROTO" in text or "unknown command" in text.lower()):
        return ConfigurationError(
            "",
            f"the server does not speak RESP3 ({text.rstrip(', ')}): Redis 6 or newer is needed; if it is one behind a "
            "proxy that speaks only RESP2, use waiting=Poll()",
        )
    if isinstance(error, ResponseError):
        return BackendError("", f"Redis refused the connection: {text}")
    if isinstance(error, (RedisTimeoutError, TimeoutError)):
        return BackendError("", "Redis did not answer in time: is this its address?", transient=True)
    if isinstance(error, (ConnectionError, OSError)):
        return BackendError("", f"Redis cannot be reached: {text}", transient=True)
    return BackendError("", f"the server does not answer like Redis ({type(error).__name__}): is this its address?")
