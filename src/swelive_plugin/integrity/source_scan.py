"""Scan changed Python files for what tests judge with; a finding triggers the mutation control, and fails nobody.

The patch scan (`swelive_plugin.integrity.patch_scan`) does not see where an added line stands: ``return True`` is
harmless in most functions and not in ``__eq__``. Pure text in, findings out. The text is not trusted: what is too large
or too deeply nested to be read in reasonable time is itself a finding.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from swelive_plugin.core.paths import is_test_support
from swelive_plugin.core.verdict import Finding
from swelive_plugin.integrity.patch_scan import MAX_SCANNED, PLAIN_NAMES, TOO_LARGE, suspicious_lines

__all__ = ["scan_sources"]

_SPECIAL = re.compile(rf"__(?!(?:{PLAIN_NAMES}|call|await|aiter|anext)__)\w+__")
_ASSERTS = re.compile(r"(?i)assert")
_LINE_END = re.compile(r"\r\n|\r|\n")

# Python 3.10 overflows the C stack on 100,000 operators in a row, and each takes two characters; later ones raise.
_MAX_PARSED = 2**20 if sys.version_info >= (3, 11) else 2**17
# The tokenizer of Python 3.10 and 3.11 takes quadratic time over a line of quotes and over a string of many lines.
_MAX_TOKENIZED = 2**19
_MAX_TOKENIZED_LINES = 20_000
_MAX_TOKENIZED_LINE = 1000
_TOO_DEEP = "is too deeply nested to be analysed"

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def scan_sources(files: Iterable[tuple[str, str, str]]) -> tuple[Finding, ...]:
    """Return one finding for each kind of thing that tests judge with and that differs in ``files``.

    Each file is (path, before, after); an empty text stands for a file that is not there. What can't be parsed (another
    Python's syntax) gives no finding.
    """
    findings: dict[str, Finding] = {}
    left = MAX_SCANNED
    for path, before, after in files:
        if before == after:
            continue
        for message, line in _messages(path, before, after) if len(after) <= left else [(TOO_LARGE, 0)]:
            findings.setdefault(message, Finding("suspicious", "suspicious", f"the patch {message}", path, line))
        left -= len(after)
    return tuple(findings.values())


def _messages(path: str, before: str, after: str) -> Iterator[tuple[str, int]]:
    if is_test_support(path):
        yield "changes what tests are made with", 0
    old, new = _LINE_END.split(before), _LINE_END.split(after)
    comments = _comments(new)
    yield from suspicious_lines(_added(old, new), comments)
    if max(len(before), len(after)) > _MAX_PARSED:
        yield TOO_LARGE, 0
        return
    try:
        yield from _differences((before, old, _comments(old)), (after, new, comments))
    except (RecursionError, MemoryError):
        yield _TOO_DEEP, 0


def _added(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, str]]:
    """Return the lines, numbered, that a text has more often than the other; a line ends where Python ends it."""
    left = Counter(old)
    added = []
    for number, line in enumerate(new, start=1):
        left[line] -= 1
        if left[line] < 0:
            added.append((number, line))
    return added


def _comments(lines: Sequence[str]) -> dict[int, int]:
    """Return the column at which each line's comment begins; none where the text is not this Python's, or is large."""
    text = "\n".join(lines)
    if len(text) > _MAX_TOKENIZED or len(lines) > _MAX_TOKENIZED_LINES:
        return {}
    if max(map(len, lines)) > _MAX_TOKENIZED_LINE:
        return {}
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, RecursionError, MemoryError):
        return {}
    return {token.start[0]: token.start[1] for token in tokens if token.type == tokenize.COMMENT}


_Source = tuple[str, Sequence[str], dict[int, int]]


def _differences(before: _Source, after: _Source) -> Iterator[tuple[str, int]]:
    try:
        old, new = ast.parse(before[0]), ast.parse(after[0])
    except (SyntaxError, ValueError):
        return
    old_code, new_code = _code_by_name(old, before), _code_by_name(new, after)
    for name in sorted(old_code.keys() | new_code.keys()):
        last = name.rpartition(".")[2]
        was, now = old_code.get(name, {}), new_code.get(name, {})
        if sorted(was.values()) != sorted(now.values()):
            what = "how objects behave" if _SPECIAL.fullmatch(last) else "an assertion"
            yield f"changes {what}: {last}", min(now, default=0)
    known = {text for text, _ in _foreign_assignments(old)}
    for text, line in _foreign_assignments(new):
        if text not in known:
            yield "sets what belongs to another module", line


def _code_by_name(tree: ast.Module, source: _Source) -> dict[str, dict[int, list[str]]]:
    """Return the code of each special method and assertion by qualified name, and by line, for there may be several.

    Its decorators are part of it, comments and blank lines are not.
    """
    _, lines, comments = source
    code_by_name: dict[str, dict[int, list[str]]] = {}
    for name, node in _functions(tree):
        if _SPECIAL.fullmatch(node.name) or _ASSERTS.search(node.name):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            numbers = range(first, (node.end_lineno or first) + 1)
            code = [lines[number - 1][: comments.get(number)].rstrip() for number in numbers]
            code_by_name.setdefault(name, {})[node.lineno] = [line for line in code if line]
    return code_by_name


def _functions(tree: ast.AST) -> Iterator[tuple[str, _Function]]:
    """Yield (qualified name, function), without recursion: code may nest as deep as it likes."""
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        if isinstance(node, _Function):
            yield prefix + node.name, node
        if isinstance(node, _Function | ast.ClassDef):
            prefix = f"{prefix}{node.name}."
        pending += [(child, prefix) for child in ast.iter_child_nodes(node)]


def _foreign_assignments(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield (text, line) of each assignment to an attribute of what the file imports."""
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            root: ast.expr = node
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            if isinstance(root, ast.Name) and root.id in imported:
                yield ast.unparse(node), node.lineno
