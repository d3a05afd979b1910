"""Calls and blocks that cannot work: their TypeError says what does. Type checkers say so by themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def usage(right: str, hints: Mapping[str, str] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a function errors that say how it is called.

    Args:
        right: a call that works.
        hints: what to do instead of giving it a keyword of another library.

    Errors: the function raises `TypeError` for the same calls as without this.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            try:
                return function(*args, **keywords)
            except TypeError as error:
                if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                    raise  # from inside
                raise TypeError(_remedy(function, args, keywords, right, hints or {})) from None

        return call

    return decorate


def _remedy(
    function: Callable[..., object],
    args: tuple[Any, ...],
    given: Mapping[str, Any],
    right: str,
    hints: Mapping[str, str],
) -> str:
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **given)
    except TypeError as error:
        what = str(error)
    else:
        raise AssertionError(f"{function.__qualname__} can be called so")
    open_ended = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    known = [name for name in signature.parameters if name != "self"]
    foreign = [] if open_ended else sorted(given.keys() - set(known))
    if foreign:
        return unknown_keyword(foreign[0], hints, known)
    return f"{what}: write {right}"


def unknown_keyword(given: str, hints: Mapping[str, str], known: list[str]) -> str:
    """What to say of a keyword that does not exist.

    Args:
        given: the keyword.
        hints: what to do instead, for those of other libraries.
        known: the keywords that exist.
    """
    return f"unexpected keyword argument {given!r}: {hints.get(given) or 'there are ' + (', '.join(known) or 'none')}"


def _refuse(why: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_: object) -> NoReturn:
        raise TypeError(f"{self!r} {why}")

    return refuse


_NAMES: dict[str, tuple[str, ...]] = {
    "disconnect": ("close",),
    "extend": ("renew",),
    "fairlock": ("fair_lock",),
    "force_unlock": ("force_release",),
    "is_acquired": ("owned",),
    "is_owned": ("owned",),
    "locked": ("is_locked", "available"),
    "multilock": ("multi_lock",),
    "reacquire": ("renew",),
    "refresh": ("renew",),
    "reset": ("force_release",),
    "rwlock": ("rw_lock",),
    "token": ("fence",),
    "try_lock": ("try_acquire",),
    "ttl": ("remaining",),
    "unlock": ("release",),
    "value": ("available",),
}
"""How it is called here, for what others call otherwise; the first that there is."""
_OF_LEASES = {
    "abandoned": "lease.abandoned",
    "detach": "await lease.detach()",
    "ensure": "lease.ensure()",
    "fence": "lease.fence",
    "lost": "lease.lost",
    "remaining": "lease.remaining()",
    "renew": "await lease.renew()",
    "wait_lost": "await lease.wait_lost()",
}
_OF_LOCKS = {
    "acquire": "locks.lock(name).acquire()",
    "force_release": "await locks.lock(name).force_release()",
    "is_locked": "await locks.lock(name).is_locked()",
    "release": "locks.lock(name).release()",
    "try_acquire": "locks.lock(name).try_acquire()",
}


class Renamed:
    """A base of what others have, too, with other names for its attributes, or with more of them."""

    __slots__ = ()

    _called: ClassVar[str] = "lock"

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            what = f"{type(self).__name__!r} object has no attribute {name!r}{_hint(self, name)}"
            raise AttributeError(what, name=name, obj=self)


def _hint(one: Renamed, name: str) -> str:
    """Return where to find what is called `name` elsewhere; nothing if that is not known."""
    kind = type(one)
    for known in _NAMES.get(name, ()):
        there = getattr(kind, known, None)
        if there is not None:
            call = f"{one._called}.{known}" if isinstance(there, property) else f"{one._called}.{known}()"
            return f": call {'await ' if inspect.iscoroutinefunction(there) else ''}{call}"
        name = known
    told, lock = "", "lock.write" if isinstance(one, TwoSides) else "lock"
    if one._called == "locks":
        told = f": locks have it: {_OF_LOCKS[name]}" if name in _OF_LOCKS else ""
    elif name in _OF_LEASES:
        told = f": its lease has it: `async with {lock} as lease`, then {_OF_LEASES[name]}"
    elif name in _OF_LOCKS and isinstance(one, TwoSides):
        told = f": its sides have it: {lock}.{name}()"
    waits = any(inspect.iscoroutinefunction(getattr(kind, known, None)) for known in ("info", "close"))
    return told if waits else told.replace("await ", "").replace("async ", "")


class AsyncOnly:
    """A base of what `async with` enters."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __enter__ = __exit__ = _refuse("needs `async with`, not `with` (for threads there is aiolock.sync)")


class SyncOnly:
    """A base of what `with` enters."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = _refuse("needs `with`, not `async with` (for tasks there is aiolock.LockManager)")


class TwoSides(Renamed):
    """A base of what has a `read` and a `write` to enter."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __enter__ = __exit__ = __aenter__ = __aexit__ = _refuse("cannot be entered itself: enter its `read` or `write`")
