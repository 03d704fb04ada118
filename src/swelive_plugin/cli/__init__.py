"""Face 2: ``swelive …``. Thin: it parses, calls the library and prints."""

from swelive_plugin.cli.main import main

__all__ = ["main"]
