"""Sphinx configuration. Build: ``python -m sphinx -W --keep-going -b html docs site``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from swelive_plugin import __version__
from swelive_plugin._links import DOCS_URL, REPOSITORY_URL

project = "pytest-swelive"
author = "pytest-swelive"
copyright = "the pytest-swelive authors"  # noqa: A001  # Sphinx reads this very name
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "cli_reference"]
exclude_patterns = ["_ext", "_static"]
# a link or an anchor that leads nowhere is a warning, and -W makes each warning an error
suppress_warnings: list[str] = []
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

smartquotes = False  # two hyphens of an option stay two hyphens
default_role = "py:obj"  # `Settings` in a docstring is a link where it can be one, and code everywhere
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"pytest-swelive {__version__}"
html_baseurl = DOCS_URL
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_theme_options = {
    "source_repository": REPOSITORY_URL,
    "source_branch": "main",
    "source_directory": "docs/",
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
