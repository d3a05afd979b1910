"""The command line: `aiolock`, or `python -m aiolock`. Needs the extra `cli`.

`ls`, `info` and `wait` are in `looking`, `forget` is beside `run`, and each other command is in a file of its own name.
They are a user of the library like any other: `run` and `force-release` use a manager; the commands that only look read
the keys themselves (`aiolock/backends/reader.py`), and change nothing.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command in `sys.argv`.

    Returns:
        The exit code, if it does not raise `SystemExit` with that; see `aiolock.cli.exits`.
    """
    try:
        from .app import app
        from .exits import errors_as_exits

        with errors_as_exits():  # of help, which no command writes
            app(prog_name="aiolock")  # raises SystemExit
    except ModuleNotFoundError as missing:
        if missing.name != "click":
            raise
        print("aiolock: the command line needs an extra: pip install 'aiolock-redis[cli]'", file=sys.stderr)
        return 2
    return 0
