"""The pages of the reference: on GitHub a list of links to the site, where each link is a whole entry.

An item `` - [`aiolock.Lock`](https://…/reference/asyncio.html#aiolock.Lock) <!-- members --> `` becomes the entry of
`aiolock.Lock`. Its comment names options of autodoc: `members`, or `members=now,advance`.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module

from docstrings import CONSTRUCTED
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock

ENTRY = re.compile(r"^- \[`([\w.]+)`\]\(\S+?#\1\)(?: <!-- (.+) -->)?$", re.M)


def kind_of(name: str) -> str:
    """What autodoc calls such a thing."""
    module, _, attribute = name.rpartition(".")
    thing = getattr(import_module(module), attribute)
    if not inspect.isclass(thing):
        return "function" if inspect.isroutine(thing) else "data"
    return "exception" if issubclass(thing, BaseException) else "class"


def directive(name: str, options: str) -> str:
    """The entry of a name, as reStructuredText in Markdown."""
    kind = kind_of(name)
    hidden = kind in ("class", "exception") and name.rpartition(".")[2] not in CONSTRUCTED
    lines = [f".. auto{kind}:: {name}{'()' if hidden else ''}"]
    pairs = (option.partition("=") for option in (*options.split(), *(["no-value"] if kind == "data" else [])))
    lines += [f"   :{option}: {value}" for option, _, value in pairs]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the entries into a page."""
    with mock(app.config.autodoc_mock_imports):
        source[0] = ENTRY.sub(lambda item: directive(item[1], item[2] or ""), source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
