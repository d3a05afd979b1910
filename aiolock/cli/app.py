"""All commands under one name."""

from __future__ import annotations

from collections.abc import Sequence

import click

from .. import __version__
from .connection import with_options
from .doctor import doctor
from .exits import errors_as_exits
from .force_release import force_release
from .looking import info, ls, wait
from .run import forget, run
from .top import top


class App(click.Group):
    """Turns errors of any command into exit codes."""

    def invoke(self, ctx: click.Context) -> object:
        """See `click.Command`."""
        with errors_as_exits():
            return super().invoke(ctx)


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="aiolock")
@with_options
def app(**_: object) -> None:
    """Distributed locks: run commands under them, look at them, end them.

    Where the server is: --url, before the command's name or after it, or AIOLOCK_URL.
    """


def _complete(commands: Sequence[click.Command]) -> None:
    for command in commands:
        app.add_command(command)


_complete([run, ls, info, top, wait, force_release, forget, doctor])
