"""Mutants of test files: the same tests with other expected values, which an honest fix must now fail.

Pure text in, text out. Only what is expected changes, at its place in the text, so that a mutant resembles the
original: expected constants, rows of parametrize, expected exceptions, the sense of an assertion. Idea: mutation
testing turned round; the tests are changed to judge the code's honesty, not the code to judge the tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Mutant", "function_of_test", "mutants"]

_EQUALITIES = frozenset({"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual"})
_EQUALITIES |= {"assertSetEqual", "assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual", "assert_equal"}
_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
}
_OPPOSITES |= {value: key for key, value in _OPPOSITES.items()}
_RAISERS = frozenset({"raises", "assertRaises", "assertRaisesRegex", "assertWarns", "warns"})
_NEVER_RAISED = "NotADirectoryError"
_HELPER = re.compile(r"(?i)_*(assert|check|verify|compare|validate|expect)")
_EXPECTED = re.compile(r"(?i)_*(expect|desired|truth|reference|want|correct)")


@dataclass(frozen=True)
class Mutant:
    """One changed test file: its text, and the functions (``Class::test_x``) in which something expected changed."""

    source: str
    changed: frozenset[str]


@dataclass(frozen=True)
class _Edit:
    """Replace a span of the text; positions are (line from 1, byte offset in the line), as `ast` gives them."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


Change = tuple[_Edit, ...]


def function_of_test(test_id: str) -> str:
    """Return the function of a test id without its file and parameters: ``Class::test_x``."""
    name = test_id.split("[", 1)[0].partition("::")[2].split()
    return name[0] if name else ""


def mutants(source: str, functions: Collection[str], *, count: int = 3) -> list[Mutant]:
    """Return up to ``count`` different mutants of a test file, changed in the named functions.

    A function in which nothing is expected in a form that we know (its assertions are in helpers) is in no mutant's
    ``changed``. A source that can't be parsed, or is too deeply nested, gives none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    made: dict[str, Mutant] = {}
    for number in range(count):
        edits: list[_Edit] = []
        changed: list[str] = []
        for name, node in _functions(tree):
            changes = _all_changes(node, number) if name in functions else []
            if changes:
                edits += changes[number % len(changes)]
                changed.append(name)
        if edits:
            text = _edited(source, edits)
            made.setdefault(text, Mutant(text, frozenset(changed)))
    return list(made.values())


def _all_changes(function: ast.FunctionDef | ast.AsyncFunctionDef, number: int) -> list[Change]:
    try:
        return list(_changes_of(function, number))
    except RecursionError:  # one function with a value that nests too deep
        return []


def _functions(tree: ast.AST) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
            continue
        if isinstance(node, ast.ClassDef):
            prefix = f"{prefix}{node.name}::"
        elif not isinstance(node, ast.Module | ast.If | ast.Try):
            continue
        pending += [(child, prefix) for child in reversed(list(ast.iter_child_nodes(node)))]


def _changes_of(function: ast.FunctionDef | ast.AsyncFunctionDef, number: int) -> Iterator[Change]:
    """Yield ways to change what a test expects, most telling first: values, shapes, exceptions, negation.

    ``number`` makes the values of one mutant differ from those of the next.
    """
    pairs = list(_equalities(function))
    for left, right in pairs:
        constants = _constants(right) or _constants(left)
        if constants:
            yield (_other_value(constants[-1], number),)
    rows = [_other_value(constants[-1], number) for row in _rows(function) if (constants := _constants(row))]
    if rows:
        yield tuple(rows)
    helpers = list(_helper_calls(function))
    for value in [*_named_expectations(function), *(argument for call in helpers for argument in reversed(call.args))]:
        constants = _constants(value, within_calls=True)
        if constants:
            yield (_other_value(constants[-1], number),)
    for right in [*(right for _left, right in pairs), *(call.args[-1] for call in helpers)]:
        yield _wrapped(right, "[", "]")
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _name(node.func) in _RAISERS and node.args:
            yield (_Edit(_start(node.args[0]), _end(node.args[0]), _NEVER_RAISED),)
    yield from _turned(function)


def _equalities(function: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            for test in [node.test, *(node.test.values if isinstance(node.test, ast.BoolOp) else [])]:
                if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
                    yield test.left, test.comparators[0]
        elif isinstance(node, ast.Call) and _name(node.func) in _EQUALITIES and len(node.args) >= 2:
            yield node.args[0], node.args[1]


def _helper_calls(function: ast.AST) -> Iterator[ast.Call]:
    """Yield calls of a project's or a library's own assertions: ``assert_identical(expected, actual)``."""
    known = _EQUALITIES | _RAISERS | _OPPOSITES.keys()
    for node in ast.walk(function):
        name = _name(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and node.args and _HELPER.match(name) and name not in known:
            yield node


def _named_expectations(function: ast.AST) -> Iterator[ast.expr]:
    """Yield what is assigned to a name that says what it is: ``expected = …``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(_EXPECTED.match(_name(target)) for target in node.targets):
            yield node.value


def _rows(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """Yield the value sets of a literal parametrize that gives more than one argument: the last is what is expected."""
    for decorator in function.decorator_list:
        if not (isinstance(decorator, ast.Call) and _name(decorator.func) == "parametrize" and len(decorator.args) > 1):
            continue
        values = decorator.args[1]
        for row in values.elts if isinstance(values, ast.List | ast.Tuple) else ():
            inner: Sequence[ast.expr] = ()
            if isinstance(row, ast.Tuple | ast.List):
                inner = row.elts
            elif isinstance(row, ast.Call) and _name(row.func) == "param":
                inner = row.args
            if len(inner) > 1:
                yield inner[-1]


def _turned(function: ast.AST) -> Iterator[Change]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            yield _wrapped(node.test, "not (", ")")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OPPOSITES:
            line, column = _end(node.func)
            start = (line, column - len(node.func.attr.encode()))
            yield (_Edit(start, (line, column), _OPPOSITES[node.func.attr]),)


def _constants(node: ast.AST, *, within_calls: bool = False) -> list[ast.Constant]:
    """Return the constants that make up a value, but not those that are formatted into text or handed to a call."""
    if isinstance(node, ast.Constant):
        return [] if node.value is None or node.value is Ellipsis else [node]
    if isinstance(node, ast.JoinedStr | ast.Subscript | ast.Attribute | ast.Lambda):
        return []
    if isinstance(node, ast.Call):
        given = [*node.args, *(keyword.value for keyword in node.keywords)] if within_calls else []
        return [constant for value in given for constant in _constants(value, within_calls=True)]
    children = ast.iter_child_nodes(node)
    return [constant for child in children for constant in _constants(child, within_calls=within_calls)]


def _other_value(node: ast.Constant, number: int) -> _Edit:
    """Return the edit that puts another value of the same type in a constant's place, looking much the same.

    Even numbers give what lies close by (two letters changed places, one more), which equality that is lenient where it
    looks plausible gives in to; odd ones something that is longer or farther away.
    """
    value = node.value
    if isinstance(value, bool):
        text = repr(not value)
    elif isinstance(value, str | bytes):
        letters = value if isinstance(value, str) else value.decode("latin-1")
        other = (number % 2 == 0 and _letters_changed(letters)) or letters + "qzx"[number % 3]
        text = repr(other if isinstance(value, str) else other.encode("latin-1"))
        if text.endswith("'") and '"' not in text:
            text = text.replace("'", '"')
    elif isinstance(value, int | float | complex):
        text = repr(value + 1 + 6 * number)
    else:
        text = "None"
    return _Edit(_start(node), _end(node), text)


def _letters_changed(value: str) -> str | None:
    """Return the value with its last two different neighbours in each other's place, ``None`` where all are alike."""
    for at in range(len(value) - 1, 0, -1):
        if value[at] != value[at - 1]:
            return value[: at - 1] + value[at] + value[at - 1] + value[at + 1 :]
    return None


def _wrapped(node: ast.expr, before: str, after: str) -> Change:
    return (_Edit(_start(node), _start(node), before), _Edit(_end(node), _end(node), after))


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _edited(source: str, edits: Sequence[_Edit]) -> str:
    """Return the text with the edits made, from its end to its start so that positions stay true."""
    lines = source.encode("utf-8", "surrogatepass").splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    text = b"".join(lines)
    pieces: list[bytes] = []
    at = len(text)
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        begin, end = (starts[line - 1] + column for line, column in (edit.start, edit.end))
        pieces += [text[end:at], edit.text.encode("utf-8", "surrogatepass")]
        at = begin
    pieces.append(text[:at])
    return b"".join(reversed(pieces)).decode("utf-8", "surrogatepass")
