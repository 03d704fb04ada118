"""Amounts of money as whole cents and a currency."""

import re

_AMOUNT = re.compile(r"(\d+)(?:\.(\d\d))? ([A-Z]{3})")


def parse_amount(text):
    """Return (cents, currency); ValueError when *text* is no amount."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"not an amount: {text!r}")
    whole, cents, currency = match.groups()
    return int(whole) * 100 + int(cents or 0), currency


def format_amount(cents, currency):
    """Return the amount as text."""
    return f"{cents // 100}.{cents % 100:02d} {currency}"
