"""The script `aiolock`. To import it needs nothing of the package.

The kernel drops signals to the first process of a container for which that has no handler, and by default it has none.
A container that is stopped while the package is imported would be killed only after its grace.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_ENDING = ("SIGTERM", "SIGHUP", "SIGQUIT")


def main() -> int:
    """Run the command in `sys.argv`.

    Returns:
        See `aiolock.cli.main`.
    """
    if os.getpid() == 1:
        for name in _ENDING:
            if signal.getsignal(number := getattr(signal, name)) is signal.SIG_DFL:
                signal.signal(number, _end)
    from . import main

    return main()


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)  # as in any other process: an exception would be lost if a finalizer runs now


if __name__ == "__main__":
    sys.exit(main())
