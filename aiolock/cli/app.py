"""All commands under one name."""

from __future__ import annotations

import click

from .run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="aiolock-redis", prog_name="aiolock")
def app() -> None:
    """Distributed locks on Redis: run commands under them, look at them, end them.

    Where the server is: --url of each command, or AIOLOCK_URL.
    """


app.add_command(run)
