"""What the event loop does in other threads: it asks for the addresses of host names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Executor(ThreadPoolExecutor):
    """Runs each call in a new thread. A pool refuses all calls once the main thread has ended, but other threads may
    need their locks, and so a new connection, for long after that.
    """

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Begin a call."""
        future: Future[R] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name="aiolock resolver", daemon=True).start()
        return future
