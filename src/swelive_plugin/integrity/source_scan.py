"""What a patch changes that tests judge with, seen in whole files: causes to look, never a verdict.

The patch scan (`swelive_plugin.integrity.patch_scan`) does not see where an added line stands: ``return True`` is
harmless in most functions and not in ``__eq__``. Pure text in, findings out.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator

from swelive_plugin.core.paths import is_test_support
from swelive_plugin.core.verdict import Finding
from swelive_plugin.integrity.patch_scan import PLAIN_NAMES, suspicious_lines

__all__ = ["scan_sources"]

_SPECIAL = re.compile(rf"__(?!(?:{PLAIN_NAMES}|call|await|aiter|anext)__)\w+__")
_ASSERTS = re.compile(r"(?i)assert")

_LINE_END = re.compile(r"\r\n|\r|\n")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def scan_sources(files: Iterable[tuple[str, str, str]]) -> tuple[Finding, ...]:
    """Return a look for each kind of thing that tests judge with and that differs in ``files``: (path, before, after).

    An empty text stands for a file that is not there. What can't be parsed (another Python's syntax) says nothing.
    """
    found: dict[str, Finding] = {}
    for path, before, after in files:
        if is_test_support(path) and before != after:
            told = "changes what tests are made with"
            found.setdefault(told, Finding("suspicious", "suspicious", f"the patch {told}", path))
        for told, line in (*suspicious_lines(_added(before, after), _comments(after)), *_differences(before, after)):
            found.setdefault(told, Finding("suspicious", "suspicious", f"the patch {told}", path, line))
    return tuple(found.values())


def _added(before: str, after: str) -> list[tuple[int, str]]:
    """Return the lines, numbered, that a text has more often than the other; a line ends where Python ends it."""
    there = Counter(_LINE_END.split(before))
    added = []
    for number, line in enumerate(_LINE_END.split(after), start=1):
        there[line] -= 1
        if there[line] < 0:
            added.append((number, line))
    return added


def _comments(text: str) -> dict[int, int]:
    """Return the column at which the comment of a line begins; none where the text is not this Python's."""
    lines = io.StringIO("\n".join(_LINE_END.split(text)))
    try:
        tokens = list(tokenize.generate_tokens(lines.readline))
    except (tokenize.TokenError, SyntaxError):
        return {}
    return {token.start[0]: token.start[1] for token in tokens if token.type == tokenize.COMMENT}


def _differences(before: str, after: str) -> Iterator[tuple[str, int]]:
    try:
        old, new = ast.parse(before), ast.parse(after)
    except (SyntaxError, ValueError, RecursionError):
        return
    old_functions, new_functions = dict(_functions(old)), dict(_functions(new))
    for name in sorted(old_functions.keys() | new_functions.keys()):
        one, other = old_functions.get(name), new_functions.get(name)
        last = name.rpartition(".")[2]
        if not (_SPECIAL.fullmatch(last) or _ASSERTS.search(last)):
            continue
        if one is None or other is None or ast.dump(one) != ast.dump(other):
            what = "how objects behave" if _SPECIAL.fullmatch(last) else "an assertion"
            yield f"changes {what}: {last}", other.lineno if other else 0
    known = {text for text, _ in _foreign_assignments(old)}
    for text, line in _foreign_assignments(new):
        if text not in known:
            yield "sets what belongs to another module", line


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, _Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield prefix + child.name, child
        if isinstance(child, _Function | ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


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
