"""How Sphinx makes the pages: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from releaf import __version__

project = "releaf"
author = "the releaf developers"
copyright = f"2026, {author}"  # noqa: A001  (Sphinx's name for it)
version = release = __version__

sys.path.append(str(Path(__file__).parent))  # for commands.py and http_api.py
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "commands", "http_api"]
exclude_patterns = ["_build"]


myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False

# Types in signatures that have no page of their own here; what the prose links to must be there.
nitpick_ignore_regex = [
    ("py:class", r"(numpy|np|collections|typing|os|pathlib|datetime|numbers)\..*"),
    ("py:class", r"Any|array|Array|Matrix|classes × features|Columns|ActionName|Label|Table|(dict|list|tuple)\[.*"),
    ("py:class", r"releaf\.\w+\..*"),
]

html_theme = "furo"
html_title = f"releaf {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00684a", "color-brand-content": "#00684a"},
    "dark_css_variables": {"color-brand-primary": "#4cc79a", "color-brand-content": "#4cc79a"},
}
