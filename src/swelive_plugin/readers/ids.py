"""Ids as other tools wrote them: without xdist's group, and with escaped characters as pytest spells them."""

from __future__ import annotations

import re
from dataclasses import replace

from swelive_plugin.core.outcome import Session, TestRecord, worst

__all__ = ["escaped_characters", "without_group", "without_groups"]

# what pytest's JUnit writer can't put into XML: ``#x1B``, and before pytest 9 all beyond U+FFFF: ``#x1F600``
_XML_ESCAPE = re.compile(r"#x(10[0-9A-F]{4}|[1-9A-F][0-9A-F]{4}|D[89A-F][0-9A-F]{2}|FFF[EF]|[01][0-9A-F]|7F)")
_PRINTABLE = (0x09, 0x0A, 0x0D)


def without_group(test_id: str) -> str:
    """Return an id without the ``@group`` that ``xdist --dist loadgroup`` puts behind it; parameters may hold ``@``."""
    if "@" not in test_id:
        return test_id
    path, separator, rest = test_id.partition("::")
    if not separator or not path.endswith(".py"):
        return test_id  # other items than Python's may have such names
    name, bracket, _ = rest.partition("[")
    if "@" in name:
        return f"{path}::{name.partition('@')[0]}"
    closed = rest.rfind("]@")
    return f"{path}::{rest[: closed + 1]}" if bracket and closed >= 0 and "]" not in rest[closed + 1 :] else test_id


def without_groups(session: Session) -> Session:
    """Return the session with every id without its group; of two that become one the worse outcome counts."""
    if not any("@" in test_id for test_id in session.tests):
        return session
    tests: dict[str, TestRecord] = {}
    for test_id, record in session.tests.items():
        bare = without_group(test_id)
        known = tests.get(bare)
        if known is None or worst((known.outcome, record.outcome)) is not known.outcome:
            tests[bare] = replace(record, id=bare)
    return replace(session, tests=tests)


def escaped_characters(name: str) -> str:
    """Return a name from JUnit XML with characters that XML can't hold as pytest escapes them in ids."""
    return _XML_ESCAPE.sub(_escape, name) if "#x" in name else name


def _escape(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    if code in _PRINTABLE:  # XML holds these: the text itself says so
        return found[0]
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
