"""What the pages need from Sphinx beyond Markdown: their diagrams, and their links to files beside docs/."""

from __future__ import annotations

import re

from docutils import nodes
from pygments.lexers.special import TextLexer
from sequence import draw
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

OUTSIDE = re.compile(r"\]\((?=\.\./\.\./[^)#]+\.md\))")


class Mermaid(SphinxDirective):
    """A diagram that scrolls sideways if the window is narrow."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        html = f'<div class="diagram" tabindex="0">{draw(list(self.content))}</div>'
        return [nodes.raw("", html, format="html")]


def offer_files(app: Sphinx, docname: str, source: list[str]) -> None:
    """A Markdown file beside docs/ is not a page of the site, but you can download it."""
    source[0] = OUTSIDE.sub("](path:", source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("mermaid", Mermaid)
    app.add_lexer("acl", TextLexer)
    app.connect("source-read", offer_files)
    return {"parallel_read_safe": True}
