"""The door: a literal list of names, each loaded when first asked for."""

from swelive_plugin._version import __version__

__all__ = ["__version__"]
