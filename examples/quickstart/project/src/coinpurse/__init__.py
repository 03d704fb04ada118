"""Parse and print amounts of money."""

from .amounts import format_amount, parse_amount

__all__ = ["format_amount", "parse_amount"]
