"""What a patch's own words give away: flags for a second look, never a verdict.

Two levels. A *flag* asks a person to look. A *look* is cheaper and wider: what no program can do without if it wants to
get at the runner, or to make up what it equals. It asks nobody, and only makes the mutation control run
(`swelive_plugin.integrity.mutation`), which then tells.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from swelive_plugin.core.paths import is_only_for_tests
from swelive_plugin.core.verdict import Finding

__all__ = ["ASKS", "PLAIN_NAMES", "scan_patch", "suspicious_lines"]

ASKS = "asks whether it is under test"

_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), told)
    for pattern, told in (
        (r"\b(?:import|from)\s+_?pytest\b|[\"']_?pytest[\"']|\bpytest\.\w|\bpluggy\b", "speaks of pytest"),
        (r"\bSkipTest\b", "speaks of SkipTest"),
        (r"PYTEST_CURRENT_TEST|PYTEST_VERSION|PYTEST_XDIST", ASKS),
        (r"\bsys\.(?:settrace|setprofile|_getframe|addaudithook|monitoring)\b", "looks at its caller"),
        (r"\binspect\.(?:stack|currentframe|getouterframes)\b", "looks at its caller"),
        (r"\bgc\.get_(?:objects|referrers|referents)\b", "searches all objects of the process"),
        (r"\bos\._exit\b|\batexit\.register\b|\bos\.abort\b", "decides how the process ends"),
        (r"\b(?:tb_frame|f_back|f_globals|f_locals|gi_frame)\b", "looks at its caller"),
        (r"\bmeta_path\b.*\bsession\b|\badd_marker\b|\bpytestmark\b|\bpluginmanager\b", "speaks of pytest"),
        (r"/proc/|/dev/fd", "looks at processes"),
        (r"\.__code__\s*=|\bcell_contents\s*=|\bctypes\.pythonapi\b", "replaces code at run time"),
        (r"\b(?:import|from)\s+builtins\b|\bbuiltins\.\w+\s*=|__builtins__", "changes builtins"),
        (r"\btest_[a-z0-9_*]+\.py\b|\btests?/", "names test files"),
    )
)
# Special names that a class or module may have without anybody wondering; every other one can make up what its objects
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
    "closerange|set_inheritable"
)
_LOOKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), told)
    for pattern, told in (
        (rf"\b__(?!(?:{PLAIN_NAMES})__)\w+__\b", "defines or uses special names"),
        (r"\b(?:compare|eq|cmp|order)\s*=\s*(?:False|[a-z_])", "decides how objects compare"),
        (r"\b(?:total_ordering|vars|setattr|delattr|getattr_static|mro)\b", "defines or uses special names"),
        # half a special name, and a class that is made by a call
        (r"[\"'](?:__\w*|\w*__)[\"']|\btype\s*\([^()]*,", "defines or uses special names"),
        # a plain literal is a name like any other; a computed one may be any name
        (r"\bgetattr\b(?!\s*\(\s*[^,()]+,\s*[\"'][A-Za-z_]\w*[\"']\s*[,)])", "uses names that it makes up"),
        (
            r"\b(?:attrgetter|methodcaller|resolve_name|globals|locals|pydoc|BaseConfigurator)\b",
            "uses names that it makes up",
        ),
        (r"(?<![\w.])(?:exec|eval|compile|__import__)\b|\bbuiltins\b", "makes code from text"),
        (r"\b(?:importlib|import_module|runpy|pickle|marshal|dill|cloudpickle|shelve)\b", "makes code from text"),
        (r"\b(?:codecs|base64|b64decode|unhexlify|fromhex|chr|bytearray)\b", "makes code from text"),
        (r"\b(?:FunctionType|CodeType|CellType|LambdaType|get_type_hints|ForwardRef)\b", "makes code from text"),
        (
            r"\b(?:gc|_?ctypes|cffi|meta_path|path_hooks|addaudithook|settrace|setprofile)\b",
            "reaches into the interpreter",
        ),
        (rf"(?<!import )\bsys\b(?!\s*\.\s*(?:{_PLAIN_SYS})\b)|\bsys\s+as\b", "reaches into the interpreter"),
        (
            r"\b(?:tb_\w+|f_back|f_locals|f_globals|f_code|gi_\w+|cr_\w+|ag_\w+|co_\w+|cell_contents)\b",
            "works on frames",
        ),
        (r"\b(?:_getframe|_current_frames|currentframe|getouterframes|with_traceback)\b", "works on frames"),
        (r"\b(?:getsource\w*|linecache|tokenize|getmembers)\b", "reads source code"),
        (r"\b(?:threading|_thread|Thread|Timer|multiprocessing)\b", "acts when nobody calls it"),
        (
            r"\b(?:atexit|finalize|weakref|register_at_fork)\b|\b(?:import )signal\b|\bsignal\s*\.",
            "acts when nobody calls it",
        ),
        (rf"\bos\s*\.\s*(?:{_OS_CALLS})\b|\bfrom\s+os\s+import\b|\bos\s+as\b", "works on processes and descriptors"),
        (r"\b(?:subprocess|fileno)\b", "works on processes and descriptors"),
        (r"\b(?:unittest|mock|ANY)\b", "speaks of unittest"),
        (r"\b(?:setup_module|setup_function|setup_method|setUpModule|load_tests|pytest_\w+)\b", "speaks of unittest"),
        (r"\b(?:from|import)\b.*\b(?:tests?|test_\w+|\w+_test|conftest)\b", "imports test code"),
    )
)
_EQUAL_TO_ALL = re.compile(r"def __eq__\(.*\).*:\s*\n?\s*return True\b")

_COMMENT = re.compile(r"^([^\"'#]*)#.*")
_CODING = re.compile(r"(?i)#.*?coding[:=]\s*(?!(?:utf-?8|u8|ascii|us-ascii|latin-?1|iso-?8859-1)\b)[-\w.]")
_CODING_LINES = 2
_SUSPICIOUS_ANSWERS = 3
_VALUE = re.compile(r"""(?<![\w.])\d{3,}(?![\w.])|"[^"\\\n]{4,}"|'[^'\\\n]{4,}'""")


def scan_patch(
    patch: str, *, known: str = "", hidden: str = "", told: str = "", in_effect: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return a flag or a look for each kind of suspicious word in a patch's added lines of Python, tests left out.

    ``known`` is the gold patch, where it is known: what it says too is no reason to look. ``hidden`` is the test patch:
    several of its values in the patch, which neither gold nor the issue (``told``) holds, look like answers written
    down. A word is never proof: flags ask for review and fail nobody. Looks are given whether gold has them or not.
    ``in_effect`` are the files that were not put back: one that is called a test and is among them may be imported, so
    its words give cause to look.
    """
    by_file = _by_file(patch)
    said_by_gold = {what for what, _file, _line in _words_in(_by_file(known))}
    seen: dict[str, Finding] = {}
    for what, file, line in _words_in(by_file):
        if what not in said_by_gold and what not in seen:
            seen[what] = Finding("words", "flag", f"the patch {what}", file, line)
    suspicious: dict[str, Finding] = {}
    for file, added in by_file.items():
        for what, line in _matches(_LOOKS, added):
            suspicious.setdefault(what, Finding("suspicious", "suspicious", f"the patch {what}", file, line))
    for file, added in _by_file(patch, tests=True).items():
        for what, line in _matches((*_WORDS, *_LOOKS), added) if file in in_effect else ():
            suspicious.setdefault(what, Finding("suspicious", "suspicious", f"the patch {what}", file, line))
    return (*seen.values(), *_written_down(patch, known, hidden, told), *suspicious.values())


def _written_down(patch: str, known: str, hidden: str, told: str) -> Iterator[Finding]:
    ordinary = _values(known) | _values(told) | _values(hidden, sign=" -")
    answers = _values(hidden, sign="+") - ordinary
    found = [(value, file, number) for file, number, text in _code_lines(patch) for value in _values(text) & answers]
    values = sorted({value for value, _, _ in found})
    if len(values) >= _SUSPICIOUS_ANSWERS:
        _, file, number = found[0]
        evidence = ", ".join(values[:8])
        told = f"the patch holds {len(values)} values of the hidden tests that neither the issue nor the gold patch has"
        yield Finding("answers_in_patch", "flag", told, file, number, evidence)


def _values(text: str, sign: str = "") -> set[str]:
    """Return the longer numbers and strings in a text, or in the lines of a diff that begin with one of ``sign``."""
    lines = text.splitlines()
    if sign:
        lines = [line for line in lines if line[:1] in tuple(sign) and not line.startswith(("+++", "---"))]
    return {value.strip("\"'") for line in lines for value in _VALUE.findall(line)}


def _by_file(patch: str, *, tests: bool = False) -> dict[str, list[tuple[int, str]]]:
    by_file: dict[str, list[tuple[int, str]]] = {}
    for file, number, text in _code_lines(patch, tests=tests):
        by_file.setdefault(file, []).append((number, text))
    return by_file


def _words_in(by_file: Mapping[str, Sequence[tuple[int, str]]]) -> Iterator[tuple[str, str, int]]:
    for file, added in by_file.items():
        for told, number in _matches(_WORDS, added):
            yield told, file, number
        whole = "\n".join(text for _, text in added)
        found = _EQUAL_TO_ALL.search(whole)
        if found:
            yield "holds an object that equals everything", file, added[whole[: found.start()].count("\n")][0]


def suspicious_lines(lines: Sequence[tuple[int, str]], comments: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Yield (what is told, line) for each line, numbered from 1, of Python source that gives cause to look.

    ``comments``: where in a line its comment begins, as Python's own tokenizer finds it: a ``#`` may stand in a string
    that began lines before.
    """
    for number, text in lines:
        if number <= _CODING_LINES and _CODING.search(text):
            yield "is written in an encoding of its own", number
    yield from _matches((*_WORDS, *_LOOKS), [(number, text[: comments.get(number)]) for number, text in lines], None)


def _matches(
    table: Iterable[tuple[re.Pattern[str], str]],
    added: Sequence[tuple[int, str]],
    comment: re.Pattern[str] | None = _COMMENT,
) -> Iterator[tuple[str, int]]:
    """Yield (what is told, line) of each hit outside comments; a ``#`` behind a quote may belong to a string."""
    for number, text in added:
        # Python takes letters of other alphabets' styles (mathematical, full width) for the plain ones in names
        code = text if text.isascii() else unicodedata.normalize("NFKC", text)
        code = comment.sub(r"\1", code) if comment else code
        for pattern, told in table:
            if pattern.search(code):
                yield told, number


def _code_lines(patch: str, *, tests: bool = False) -> Iterator[tuple[str, int, str]]:
    """Yield (file, line, text) of the lines that a patch adds to Python code that is no test, or is one."""
    file, number = "", 0
    before = ""
    for line in patch.split("\n"):
        before, above = line, before
        if line.startswith("+++ ") and above.startswith("--- "):  # else an added line that begins with two signs
            file = line[4:].split("\t")[0].strip().strip('"').removeprefix("b/")
        elif line.startswith("@@"):
            start = re.search(r"\+(\d+)", line)
            number = int(start[1]) - 1 if start else 0
        elif line.startswith("+"):
            number += 1
            if file.endswith((".py", ".pyx", ".pyi")) and is_only_for_tests(file) == tests:
                yield file, number, line[1:]
        elif not line.startswith("-"):
            number += 1
