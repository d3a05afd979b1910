"""A process that measures on request: `python -m benchmarks.worker`; requests in, results out, one per line.

It ends when its standard input ends, so an interrupted or killed parent leaves none behind.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any


def listen(requests: queue.SimpleQueue[str]) -> None:
    """Read the parent's requests; end with the parent."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def answer(line: str) -> dict[str, Any]:
    """Run the function that a request names."""
    try:
        request = json.loads(line)
        module, _, name = request["call"].partition(":")
        function: Callable[..., Coroutine[Any, Any, Any]] = getattr(importlib.import_module(module), name)
        with asyncio.Runner(loop_factory=loop_factory(request["loop"])) as runner:
            return {"result": runner.run(function(**request["arguments"]))}
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


def loop_factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what creates a loop of that name."""
    if loop == "uvloop":
        return importlib.import_module("uvloop").new_event_loop  # type: ignore[no-any-return]
    return asyncio.new_event_loop


def main() -> None:
    """Answer until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent to handle
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is not an answer
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(requests,), daemon=True).start()
    while True:
        print(json.dumps(answer(requests.get())), file=replies)


if __name__ == "__main__":
    main()
