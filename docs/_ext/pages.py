"""What the pages need from Sphinx beyond Markdown: diagrams, links to files beside docs/, the README as a page."""

from __future__ import annotations

import re

from docutils import nodes
from pygments.lexers.special import TextLexer
from sequence import draw
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SITE = "https://aiolock.github.io/aiolock/"
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


def stay_here(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """The README names the site's pages by their addresses. Here they are pages of this build.

    Raises:
        ValueError: there is no such page.
    """
    for link in doctree.findall(nodes.reference):
        address = link.get("refuri", "")
        if address.startswith(SITE):
            page, _, anchor = address.removeprefix(SITE).partition("#")
            target = page.removesuffix(".html") or "index"
            if target not in app.env.found_docs:
                raise ValueError(f"{docname}: no page for {address}")
            link["refuri"] = app.builder.get_relative_uri(docname, target) + (anchor and f"#{anchor}")
            link["internal"] = True


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("mermaid", Mermaid)
    app.add_lexer("acl", TextLexer)
    app.connect("source-read", offer_files)
    app.connect("doctree-resolved", stay_here)
    return {"parallel_read_safe": True}
