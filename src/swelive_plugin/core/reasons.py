"""Reasons as a person reads them: one for each cause, however many tests it struck."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from swelive_plugin.core.verdict import Reason

__all__ = ["group_reasons"]

_NAMED = 5  # tests of one reason that are named


def group_reasons(reasons: Iterable[Reason]) -> list[Reason]:
    """Return the reasons with those of one cause as one, in the order in which each cause came first.

    Reasons are of one cause where they differ in nothing but their test, and in its id where the message holds it. The
    one that stands for several says how many tests there are, has the first as its ``test`` and names the first five as
    its ``evidence`` if it has none of its own.
    """
    groups: dict[tuple[object, ...], list[Reason]] = {}
    for reason in reasons:
        message = reason.message.replace(reason.test, "") if reason.test else reason.message
        key = (reason.code, message, reason.file, reason.line, reason.evidence, bool(reason.test))
        groups.setdefault(key, []).append(reason)
    return [_one(group) for group in groups.values()]


def _one(group: Sequence[Reason]) -> Reason:
    first = group[0]
    tests = list(dict.fromkeys(reason.test for reason in group))
    if len(tests) == 1:
        return first
    message = f"{len(tests)} tests: {first.message}"
    if first.test in first.message:
        message = f"{first.message}, and {len(tests) - 1} more such tests"
    more = [f"and {len(tests) - _NAMED} more"] if len(tests) > _NAMED else []
    return replace(first, message=message, evidence=first.evidence or "\n".join([*tests[:_NAMED], *more]))
