"""Management commands of which one runs at a time."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any, ClassVar

from ...errors import AcquireTimeout, BackendError, LockLost
from ...sync import Lease, LockOptions
from ..extra import needs
from .sync import get_locks

with needs("django"):
    from django.core.management.base import CommandError, CommandParser, OutputWrapper

BUSY = 75
"""The exit code of a command that was not run, because another one runs. These codes are those of `aiolock run`."""
LOST = 79
"""The exit code of a command that lost its lock while it ran."""
UNREACHABLE = 69
"""The exit code of a command that was not run, because Redis is unreachable or refuses."""


class LockedCommand:
    """What makes a management command one of which one runs at a time, on all machines together.

    Put it before `BaseCommand`, or another class of commands.

    The lock is taken before `handle()`, with the manager of `get_locks()`, and released after it. If another one
    runs, the command ends with exit code 75, or as these arguments say, which each command of this kind has:

    - `--skip-if-held`: ends with 0. For a cron job that every machine starts.
    - `--wait SECONDS`: waits for its turn.

    A command that loses its lock is not cancelled: call `self.lease.ensure()` before each step that must not run twice.
    It ends with exit code 79; and with 69 if Redis cannot be asked, and it was not run.

    Attributes:
        lock_name: the lock's; empty for `command:` and the name of the command's module.
        lock_options: as for `locks.lock()`.
        lease: what the command has while it runs, for `self.lease.fence` and `self.lease.ensure()`.

    Example:
        ```python
        class Command(LockedCommand, BaseCommand):
            lock_options = {"ttl": 60.0}

            def handle(self, *args, **options):
                for order in Order.objects.filter(due=True):
                    self.lease.ensure()
                    order.ship(fence=self.lease.fence)
        ```
    """

    lock_name: ClassVar[str] = ""
    lock_options: ClassVar[LockOptions] = {}
    lease: Lease
    stderr: Any

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Add the arguments that every command of this kind has."""
        command: Any = super()
        parser = command.create_parser(prog_name, subcommand, **kwargs)
        group = parser.add_argument_group("one at a time").add_mutually_exclusive_group()
        group.add_argument("--skip-if-held", action="store_true", help="if another one runs, end with exit code 0")
        group.add_argument("--wait", type=_seconds, metavar="SECONDS", help="if another one runs, wait for its end")
        return parser

    def execute(self, *args: Any, **options: Any) -> Any:
        """Run the command under its lock.

        Raises:
            CommandError: another one runs, with `returncode` 75; the lock was lost while it ran, with 79; or Redis is
                unreachable or refuses, and it was not run, with 69.
        """
        name = self.lock_name or f"command:{type(self).__module__.rpartition('.')[2]}"
        skips, seconds = options.pop("skip_if_held", False), options.pop("wait", None)
        try:
            self.lease = get_locks().lock(name, **self.lock_options).acquire(timeout=seconds or 0)
        except (AcquireTimeout, BackendError) as error:
            holder = error.holder if isinstance(error, AcquireTimeout) else None
            if holder is None:
                raise CommandError(f"not run: {error}", returncode=UNREACHABLE) from error
            if skips:
                if options.get("stderr"):
                    self.stderr = OutputWrapper(options["stderr"])
                self.stderr.write(f"skipped: {holder} is running it")
                return None
            raise CommandError(f"not run: {holder} is running it", returncode=BUSY) from error
        try:
            with self.lease:
                command: Any = super()
                return command.execute(*args, **options)
        except LockLost as error:
            raise CommandError(str(error), returncode=LOST) from error


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= timedelta(days=30).total_seconds():
        raise argparse.ArgumentTypeError("0 seconds to 30 days")
    return seconds
