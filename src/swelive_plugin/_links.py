"""Where the project lives on the web: the same addresses as ``[project.urls]`` in pyproject.toml (a test compares)."""

from __future__ import annotations

__all__ = ["DOCS_URL", "REPOSITORY_URL", "docs_page"]

REPOSITORY_URL = "https://github.com/pytest-swelive/pytest-swelive"
DOCS_URL = "https://pytest-swelive.github.io/pytest-swelive/"


def docs_page(page: str) -> str:
    """Return the address of a page, such as ``reference/inputs``; error messages and ``--help`` name pages by it."""
    return f"{DOCS_URL}{page}.html"
