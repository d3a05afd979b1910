"""What is watched through one session: each watch tells once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from . import jute
from .jute import Answered, Code, Op
from .link import Reply

Asking = Callable[[Op, bytes], "asyncio.Future[Reply]"]
Told = Callable[[bool], None]
"""Told whether the node is gone; otherwise it has changed."""


class Watches:
    """Those of one session. They end with its connection, and say nothing then.

    Args:
        ask: writes a request.
    """

    def __init__(self, ask: Asking) -> None:
        self._ask = ask
        self._told: dict[str, dict[object, tuple[int, bool, Told]]] = {}

    def add(self, node: str, since: int, told: Told, *, deletes_only: bool = False) -> object:
        """Watch a node; return what names the watch.

        Args:
            node: its path.
            since: the last change that is known.
            told: called once, but never before this returns.
            deletes_only: say nothing of changes.
        """
        watch = object()
        self._told.setdefault(node, {})[watch] = (since, deletes_only, told)
        self._set(node)
        return watch

    def drop(self, node: str, watch: object) -> None:
        """Say nothing of it any more."""
        told = self._told.get(node, {})
        told.pop(watch, None)
        if not told:
            self._told.pop(node, None)

    def clear(self) -> None:
        """They are gone."""
        self._told.clear()

    def heard(self, kind: int, node: str) -> None:
        """An event has come: the server watches the node no more."""
        if kind == jute.DELETED:
            self._tell(node, gone=True)
        else:
            self._tell(node, gone=False)
            if node in self._told:
                self._set(node)

    def _set(self, node: str) -> None:
        self._ask(Op.GET_DATA, jute.read(node, watch=True)).add_done_callback(lambda asked: self._is(node, asked))

    def _is(self, node: str, asked: asyncio.Future[Reply]) -> None:
        if asked.cancelled() or node not in self._told:
            return
        error = asked.exception()
        if error is None:
            body = asked.result().body
            body.buffer()
            self._tell(node, gone=False, changed=body.stat().mzxid)
        elif isinstance(error, Answered):  # else it is gone with the connection
            self._tell(node, gone=error.code == Code.NO_NODE)

    def _tell(self, node: str, gone: bool, changed: int | None = None) -> None:
        for watch, (since, deletes_only, told) in list(self._told[node].items() if node in self._told else ()):
            if gone or (not deletes_only and (changed is None or changed > since)):
                self.drop(node, watch)
                told(gone)
