"""Scan added lines for suspicious APIs; a finding triggers the mutation control.

Two levels. A *flag* asks a person to look. *Suspicious* is cheaper and wider: what no program can do without if it
wants to reach the test runner, or to compute what it equals. It asks nobody, and only makes the mutation control run
(`swelive_plugin.integrity.mutation`). Neither fails anybody.

A patch's text is not trusted: each pattern takes time linear in a line, and `MAX_SCANNED` limits the whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from swelive_plugin.core.paths import is_only_for_tests
from swelive_plugin.core.verdict import Finding

__all__ = ["ASKS", "MAX_SCANNED", "PLAIN_NAMES", "TOO_LARGE", "scan_patch", "suspicious_lines"]

ASKS = "asks whether it is under test"
TOO_LARGE = "is too large to be scanned whole"
MAX_SCANNED = 2 * 2**20
"""How many characters of added lines are scanned."""

_Pattern = tuple[re.Pattern[str], ...]
_Table = tuple[tuple[_Pattern, str], ...]


def _table(*rows: tuple[str | tuple[str, ...], str]) -> _Table:
    """Return (patterns, message) of each row; several patterns must be found in a line one after the other.

    One pattern with ``.*`` inside would take time with the square of a line's length.
    """
    return tuple(
        (tuple(re.compile(each) for each in ((patterns,) if isinstance(patterns, str) else patterns)), message)
        for patterns, message in rows
    )


_FLAGS = _table(
    (r"\b(?:import|from)\s+_?pytest\b|[\"']_?pytest[\"']|\bpytest\.\w|\bpluggy\b", "uses pytest"),
    (r"\bSkipTest\b", "uses SkipTest"),
    (r"PYTEST_CURRENT_TEST|PYTEST_VERSION|PYTEST_XDIST", ASKS),
    (r"\bsys\.(?:settrace|setprofile|_getframe|addaudithook|monitoring)\b", "inspects its caller"),
    (r"\binspect\.(?:stack|currentframe|getouterframes)\b", "inspects its caller"),
    (r"\bgc\.get_(?:objects|referrers|referents)\b", "searches all objects of the process"),
    (r"\bos\._exit\b|\batexit\.register\b|\bos\.abort\b", "decides how the process ends"),
    (r"\b(?:tb_frame|f_back|f_globals|f_locals|gi_frame)\b", "inspects its caller"),
    ((r"\bmeta_path\b", r"\bsession\b"), "uses pytest"),
    (r"\badd_marker\b|\bpytestmark\b|\bpluginmanager\b", "uses pytest"),
    (r"/proc/|/dev/fd", "reads about processes"),
    (r"\.__code__\s*=|\bcell_contents\s*=|\bctypes\.pythonapi\b", "replaces code at run time"),
    (r"\b(?:import|from)\s+builtins\b|\bbuiltins\.\w+\s*=|__builtins__", "changes builtins"),
    (r"\btest_[a-z0-9_*]+\.py\b|\btests?/", "names test files"),
)
# Special names that a class or module may have without anybody wondering; every other one can compute what its objects
# equal, hold or are.
PLAIN_NAMES = (
    "init|name|main|doc|all|version|author|future|repr|str|enter|exit|aenter|aexit|annotations|post_init|qualname|"
    "module|cause|context|path|copyright|license"
)
_PLAIN_SYS = (
    "version_info|version|platform|argv|exit|stdout|stderr|stdin|executable|maxsize|byteorder|float_info|exc_info|"
    "getdefaultencoding|getfilesystemencoding|implementation"
)
_OS_CALLS = (
    "write|writev|pwrite|dup2?|fork\\w*|kill\\w*|_exit|abort|pipe2?|fdopen|exec\\w+|spawn\\w*|system|popen|sendfile|"
    "closerange|set_inheritable|posix_spawn\\w*|memfd_create|preadv\\w*"
)
_SUSPICIOUS = _table(
    (rf"\b__(?!(?:{PLAIN_NAMES})__)\w+__\b", "defines or uses special names"),
    (r"\b(?:compare|eq|cmp|order)\s*=\s*(?:False|[a-z_])", "decides how objects compare"),
    (r"\b(?:total_ordering|vars|setattr|delattr|getattr_static|mro)\b", "defines or uses special names"),
    # half a special name, and a class that is made by a call
    (r"[\"'](?:__\w*|\w*__)[\"']|\btype\s*\([^()]*,", "defines or uses special names"),
    # a plain literal is a name like any other; a computed one may be any name
    (r"\bgetattr\b(?!\s*\([^,()]+,\s*[\"'][A-Za-z_]\w*[\"']\s*[,)])", "computes names"),
    (
        r"\b(?:attrgetter|methodcaller|resolve_name|globals|locals|pydoc|BaseConfigurator|DictConfigurator|dictConfig)\b",
        "computes names",
    ),
    (r"(?<![\w.])(?:exec|eval|compile|__import__)\b|\bbuiltins\b", "makes code from text"),
    (r"\b(?:importlib|import_module|runpy|pickle|marshal|dill|cloudpickle|shelve|doctest)\b", "makes code from text"),
    (r"\b(?:codecs|base64|b64decode|unhexlify|fromhex|chr|bytearray)\b", "makes code from text"),
    (r"\b(?:FunctionType|CodeType|CellType|LambdaType|get_type_hints|ForwardRef)\b", "makes code from text"),
    (r"\b(?:gc|_?ctypes|cffi|meta_path|path_hooks|addaudithook|settrace|setprofile)\b", "uses interpreter internals"),
    (rf"(?<!import )\bsys\b(?!\s*\.\s*(?:{_PLAIN_SYS})\b)|\bsys\s+as\b", "uses interpreter internals"),
    (r"\b(?:tb_\w+|f_back|f_locals|f_globals|f_code|gi_\w+|cr_\w+|ag_\w+|co_\w+|cell_contents)\b", "uses frames"),
    (r"\b(?:_getframe|_current_frames|currentframe|getouterframes|with_traceback)\b", "uses frames"),
    (r"\b(?:extract_stack|format_stack|walk_stack|FrameSummary|StackSummary|findCaller|stack_info)\b", "uses frames"),
    (r"\b(?:getsource\w*|linecache|tokenize|getmembers|formatwarning)\b", "reads source code"),
    (r"\b(?:threading|_thread|Thread|Timer|multiprocessing)\b", "runs code in the background or at exit"),
    (
        r"\b(?:atexit|finalize|weakref|register_at_fork)\b|\b(?:import )signal\b|\bsignal\s*\.",
        "runs code in the background or at exit",
    ),
    (rf"\bos\s*\.\s*(?:{_OS_CALLS})\b|\bfrom\s+os\s+import\b|\bos\s+as\b", "uses processes or descriptors"),
    (r"\b(?:subprocess|create_subprocess_\w+|pty|fileno)\b", "uses processes or descriptors"),
    (r"\b(?:unittest|mock|ANY)\b", "uses unittest or hooks of pytest"),
    (
        r"\b(?:setup_module|setup_function|setup_method|setUpModule|load_tests|pytest_\w+)\b",
        "uses unittest or hooks of pytest",
    ),
    ((r"\b(?:from|import)\b", r"\b(?:tests?|test_\w+|\w+_test|conftest)\b"), "imports test code"),
)
_RETURNS_TRUE = re.compile(r"\s*return True\b")
_RETURNS_TRUE_AT_ONCE = re.compile(r":\s*return True\b")

_COMMENT = re.compile(r"^([^\"'#]*)#.*")
_CODING = re.compile(r"(?i)coding[:=]\s*(?!(?:utf-?8|u8|ascii|us-ascii|latin-?1|iso-?8859-1)\b)[-\w.]")
_CODING_LINES = 2
_BLOCK = 200
_HUNK_START = re.compile(r"@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})")
_SOURCE = (".py", ".pyx", ".pyi")
_PROSE = (".md", ".rst")
_SUSPICIOUS_ANSWERS = 3
_VALUE = re.compile(r"""(?<![\w.])\d{3,}(?![\w.])|"[^"\\\n]{4,}"|'[^'\\\n]{4,}'""")


def scan_patch(
    patch: str, *, known: str = "", hidden: str = "", issue: str = "", in_effect: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return one finding for each kind of suspicious API in a patch's added lines of Python, tests left out.

    ``known`` is the gold patch, where it is known: what it uses too is no flag. ``hidden`` is the test patch: several
    of its values in the patch, which neither gold nor the ``issue`` holds, look like answers written down. Suspicious
    findings are given whether gold has them or not. ``in_effect`` are the files that were not put back: one that is
    called a test and is among them may be imported, so it is scanned too.
    """
    by_file, complete = _added_code(patch)
    code = {file: lines for file, lines in by_file.items() if not is_only_for_tests(file)}
    known_code = {file: lines for file, lines in _added_code(known)[0].items() if not is_only_for_tests(file)}
    in_gold = {message for message, _file, _line in _flagged(known_code)}
    flags: dict[str, Finding] = {}
    for message, file, line in _flagged(code):
        if message not in in_gold:
            flags.setdefault(message, Finding("suspicious_api", "flag", f"the patch {message}", file, line))
    suspicious: dict[str, Finding] = {}
    for file, added in by_file.items():
        table = _SUSPICIOUS if file in code else (*_FLAGS, *_SUSPICIOUS) if file in in_effect else ()
        for message, line in _matches(table, added):
            suspicious.setdefault(message, Finding("suspicious", "suspicious", f"the patch {message}", file, line))
    if not complete:
        suspicious[TOO_LARGE] = Finding("suspicious", "suspicious", f"the patch {TOO_LARGE}")
    return (*flags.values(), *_answers(patch, known, hidden, issue), *suspicious.values())


def _answers(patch: str, known: str, hidden: str, issue: str) -> Iterator[Finding]:
    ordinary = _values(known) | _values(issue) | _values(hidden, sign=" -")
    answers = _values(hidden, sign="+") - ordinary
    hits = [
        (value, file, number)
        for file, number, text in _added_lines(patch)
        if not file.endswith(_PROSE) and not is_only_for_tests(file)
        for value in sorted(_values(text) & answers)
    ]
    values = sorted({value for value, _, _ in hits})
    if len(values) >= _SUSPICIOUS_ANSWERS:
        _, file, number = hits[0]
        message = f"the patch holds {len(values)} values of the hidden tests that neither the issue nor gold has"
        yield Finding("answers_in_patch", "flag", message, file, number, ", ".join(values[:8]))


def _values(text: str, sign: str = "") -> set[str]:
    """Return the longer numbers and strings in a text, or in the lines of a diff that begin with one of ``sign``."""
    lines = text.split("\n")
    if sign:
        lines = [line for line in lines if line[:1] in tuple(sign) and not line.startswith(("+++", "---"))]
    return {value.strip("\"'") for line in lines for value in _VALUE.findall(line)}


def _added_code(patch: str) -> tuple[dict[str, list[tuple[int, str]]], bool]:
    """Return the added (line, text) of Python files by file, up to `MAX_SCANNED`, and whether that is all."""
    by_file: dict[str, list[tuple[int, str]]] = {}
    left = MAX_SCANNED
    for file, number, text in _added_lines(patch):
        if file.endswith(_SOURCE):
            by_file.setdefault(file, []).append((number, text[:left]))
            left -= len(text) + 1
            if left <= 0:
                return by_file, False
    return by_file, True


def _flagged(by_file: Mapping[str, Sequence[tuple[int, str]]]) -> Iterator[tuple[str, str, int]]:
    for file, added in by_file.items():
        for message, number in _matches(_FLAGS, added):
            yield message, file, number
        number = _equal_to_all(added)
        if number:
            yield "holds an object that equals everything", file, number


def _equal_to_all(added: Sequence[tuple[int, str]]) -> int:
    """Return the line of an ``__eq__`` that begins with ``return True``, or 0."""
    pending = 0
    for number, text in added:
        if pending and text.strip():
            if _RETURNS_TRUE.match(text):
                return pending
            pending = 0
        _, method, rest = text.partition("def __eq__(")
        if method and _RETURNS_TRUE_AT_ONCE.search(rest):
            return number
        if method and rest.rstrip().endswith(":"):
            pending = number
    return 0


def suspicious_lines(lines: Sequence[tuple[int, str]], comments: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Yield (message, line) for each kind of suspicious API in lines, numbered from 1, of Python source.

    ``comments``: where in a line its comment begins, as Python's own tokenizer finds it: a ``#`` may stand in a string
    that began lines before.
    """
    for number, text in lines:
        if number <= _CODING_LINES and _CODING.search(text.partition("#")[2]):
            yield "declares an unusual encoding", number
    without = [(number, text[: comments.get(number)]) for number, text in lines]
    yield from _matches((*_FLAGS, *_SUSPICIOUS), without, None)


def _matches(
    table: _Table, added: Sequence[tuple[int, str]], comment: re.Pattern[str] | None = _COMMENT
) -> Iterator[tuple[str, int]]:
    """Yield (message, line) of the first hit of each row outside comments; a ``#`` behind a quote may be a string's.

    Lines are tried by the block first, which is many times faster. What joins them ends every pattern that a line's end
    would end, so a block misses nothing that one of its lines has.
    """
    open_rows = list(table)
    lines = [(number, text) for number, text in added if text and not text.isspace()]
    for start in range(0, len(lines), _BLOCK):
        if not open_rows:
            return
        block = [(number, _code_of(text, comment)) for number, text in lines[start : start + _BLOCK]]
        joined = "\n()\n".join(code for _, code in block)
        for row in [row for row in open_rows if _holds(row[0], joined)]:
            line = next((number for number, code in block if _holds(row[0], code)), None)
            if line is not None:
                open_rows.remove(row)
                yield row[1], line


def _code_of(text: str, comment: re.Pattern[str] | None) -> str:
    # Python takes letters of other alphabets' styles (mathematical, full width) for the plain ones in names.
    code = text if text.isascii() else "".join(map(_plain, text))
    return comment.sub(r"\1", code) if comment and "#" in code else code


def _holds(patterns: _Pattern, code: str) -> bool:
    start = 0
    for pattern in patterns:
        match = pattern.search(code, start)
        if match is None:
            return False
        start = match.end()
    return True


@lru_cache(maxsize=4096)
def _plain(letter: str) -> str:
    """Return the ASCII that stands for a letter in names, if any; a whole text takes quadratic time to normalise."""
    form = unicodedata.normalize("NFKC", letter)
    return form if form.isascii() else letter


def _added_lines(patch: str) -> Iterator[tuple[str, int, str]]:
    """Yield (file, line, text) of each line that a patch adds."""
    file, number = "", 0
    before = ""
    for line in patch.split("\n"):
        before, above = line, before
        if line.startswith("+++ ") and above.startswith("--- "):  # else an added line that begins with two signs
            file = line[4:].split("\t")[0].strip().strip('"').removeprefix("b/")
        elif line.startswith("@@"):
            start = _HUNK_START.match(line)
            number = int(start[1]) - 1 if start else 0
        elif line.startswith("+"):
            number += 1
            yield file, number, line[1:]
        elif not line.startswith("-"):
            number += 1
