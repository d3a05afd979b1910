"""The documentation site: `make docs` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import aiolock  # noqa: E402

project = "aiolock"
author = "aiolock contributors"
copyright = author
version = release = aiolock.__version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
extensions += ["docstrings", "entries", "since", "pages", "complete"]  # of _ext
exclude_patterns = ["examples"]

# Markdown that GitHub shows, too: its anchors, its links between files, its mermaid diagrams.
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

autodoc_mock_imports = ["arq"]  # it wants an older redis-py
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"aiolock {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
