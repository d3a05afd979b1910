"""What a server says instead of an answer, as `BackendError`: what it means, if a repetition can help, what to do."""

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
from ...scripts.foreign import OTHER_TYPE, foreign
from ..base import NO_MESSAGES
from .tls import refused_tls

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

NOT_READY: dict[str, str] = {
    "BUSY": "a script has been running for too long on the server",
    "LOADING": "the server is still loading its data",
}
"""Error codes of a server that refuses everything for now, and why."""

NOT_RUN = NOT_THE_MASTER | NOT_READY.keys() | {"ASK", "CLUSTERDOWN", "MOVED", "NOREPLICAS", "TRYAGAIN"}
"""Error codes that come before anything has run."""

_CLUSTER = "it is part of a cluster: use LockManager.cluster([url, …])"
_REMEDIES = {
    **NOT_READY,
    "CLUSTERDOWN": "no master of the cluster serves this slot: start its master or a replica of that, or give the "
    "slot to another (redis-cli --cluster fix)",
    "MISCONF": "it cannot persist: see its log",
    "MOVED": _CLUSTER,
    "ASK": _CLUSTER,
    "CROSSSLOT": _CLUSTER,
    "NOAUTH": "check username and password",
    "NOPERM": "allow the user in the ACL what is named here, or undo its renaming",
    "NOREPLICAS": "its min-replicas-to-write asks for more replicas than are connected: connect them, or set it to 0 "
    "where a master has a single replica, which has none itself once it is the master",
    "OOM": "it is out of memory: raise maxmemory",
    "READONLY": "it is a replica: connect to the master",
    "TRYAGAIN": "its slot is being moved, and its keys are on two nodes: if that was interrupted, finish it (redis-cli "
    "--cluster fix)",
    "WRONGTYPE": OTHER_TYPE,
    "WRONGPASS": "check username and password",
}
_ARGUMENTS = re.compile(r",? with args beginning with:.*", re.DOTALL)
_NESTED = re.compile(r"user_script: ?\d+: -?([A-Z]+) ")  # before Redis 7 the error of any script is wrapped in text
_DENIED_IN_SCRIPT = re.compile(
    "user executing the script can't run this command|ACL failure in script|nknown (?:\\w+ )?command called from"
)
_LINE = re.compile(r"user_script: ?(\d+)")
_CALL = re.compile(r"redis\.p?call\('([A-Z]+)'")
_UNKNOWN = "un(?:known|supported) command"  # a server's words, and those of Envoy
_RUN = re.compile(rf"(?:{_UNKNOWN}|permissions to run the) ['`]?(evalsha|eval)\b", re.IGNORECASE)


class ErrorReply(ResponseError):
    """An error reply: its text as the server wrote it, the code first. Versions of redis-py remove different codes.

    Without the arguments that some servers quote: they may hold an owner's id.
    """

    def __init__(self, text: str) -> None:
        super().__init__(_ARGUMENTS.sub("", text))


class Desync(Exception):
    """The stream does not say what it must: nothing read from it can be trusted."""


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


def unknown(text: str) -> bool:
    """Whether an error says that the server, or a proxy before it, does not know a command."""
    return re.search(_UNKNOWN, text, re.IGNORECASE) is not None


def not_run_by(error: ErrorReply) -> str:
    """The command that runs scripts, in small letters, if the server refuses to run them by it; otherwise ""."""
    found = _RUN.search(str(error))
    return "" if found is None else found[1].lower()


def refused(name: str, doing: str, error: ErrorReply, lua: str = "") -> BackendError:
    """Return the error for an error reply.

    Args:
        name: the lock's name.
        doing: what was asked of the server, for the message.
        error: the reply.
        lua: the script that was run: not every server names the command that it refuses, but all name the line.
    """
    code = code_of(error)
    text = str(error)
    if code and code not in text:
        text = f"{code} {text}"
    called = _called(text, lua)
    if code == "NOPERM" and called and not any(command.lower() in text.lower() for command in called):
        text = f"{text} (which calls {' and '.join(called)})"
    remedy = _REMEDIES.get(code)
    message = foreign(text) or f"Redis refused {doing}: {text}{f' ({remedy})' if remedy else ''}"
    failure = BackendError(name, message, transient=code in PASSING)
    failure.__cause__ = error
    return failure


def no_scripts(name: str, doing: str, error: ErrorReply) -> BackendError:
    """Return the error if the server runs scripts neither by their digests nor by their texts."""
    failure = BackendError(
        name,
        f"Redis refused {doing}: {error} (locks are scripts: allow the user `+evalsha` and `+script|load`, or `+eval`, "
        "in the ACL, or undo the renaming of these commands)",
    )
    failure.__cause__ = error
    return failure


def _called(text: str, lua: str) -> list[str]:
    """The commands in the line of a script that an error names."""
    at, lines = _LINE.search(text), lua.splitlines()
    return [] if at is None else _CALL.findall("".join(lines[int(at[1]) - 1 : int(at[1])]))


def lost(name: str, doing: str, cause: BaseException | None) -> BackendError:
    """The connection was lost before the answer came."""
    failure = BackendError(
        name,
        f"the connection to Redis {fate(cause)} before {doing} was answered: it may have run or not; try again",
        transient=True,
    )
    failure.__cause__ = cause
    return failure


def disconnected(cause: BaseException, unconfirmed: bool) -> BackendError:
    """The connection was lost, and there is no other yet.

    Args:
        cause: why.
        unconfirmed: a subscription awaited its first confirmation.
    """
    hung_up = unconfirmed and not isinstance(cause, TimeoutError)  # that is silence
    remedy = f". {NO_MESSAGES}" if hung_up else ""
    text = f"the connection to Redis {fate(cause)}, and a new one is being made{remedy}"
    failure = BackendError("", text, transient=True)
    failure.__cause__ = cause
    return failure


def fate(cause: BaseException | None) -> str:
    """What became of a connection, and why, for messages."""
    if isinstance(cause, (Misplaced, Unready)):
        return f"was given up ({cause})"
    return "was lost" if cause is None else f"was lost ({type(cause).__name__}: {cause})"


class Misplaced(Exception):
    """The server that was reached is a replica: the master may be at this address again soon, or at another."""


class Unready(Exception):
    """The server that was reached refuses everything for now.

    Args:
        code: of its errors.
    """

    def __init__(self, code: str) -> None:
        super().__init__(f"{NOT_READY[code]} ({code})")


class Unasked(ErrorReply):
    """A node has not taken a request about a slot that is being moved to it: the ASKING before it was refused.

    Attributes:
        why: the answer to ASKING.
    """

    def __init__(self, why: ErrorReply) -> None:
        super().__init__(f"TRYAGAIN the slot is being moved, and ASKING is refused ({why})")
        self.why: ErrorReply = why


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
    failure = refused_tls(error) or _unconnected(error)
    failure.__cause__ = error
    return failure


def _unconnected(error: BaseException) -> AiolockError:
    text = str(error)
    if isinstance(error, (Misplaced, Unready)):
        return BackendError("", text, transient=True)
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        if text.startswith("HELLO must be called"):
            text = "it wants a user and a password, and none was given"
        return BackendError("", f"Redis refused the credentials: {text}: check username, password and ACL")
    if isinstance(error, ResponseError) and ("NOPROTO" in text or unknown(text)):
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
        if "closed" in text.lower():  # once it was connected
            text = (
                f"{text.rstrip('.')}; if a proxy hangs up on HELLO, CLIENT, INFO or ROLE, give the server's own address"
            )
        return BackendError("", f"Redis cannot be reached: {text}", transient=True)
    return BackendError("", f"the server does not answer like Redis ({type(error).__name__}): is this its address?")
