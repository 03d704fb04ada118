"""How the upstream graders see a session: line by line, as a map from id to status word.

They read what ``pytest -rA`` prints, split each line at spaces and let later lines win. The policies that reproduce
them (`swelive_plugin.core.policies`) judge that map, not the records. Where a session was not read from text, its lines
are those that pytest would have printed, with the ids of skipped tests (``--no-fold-skipped``).

Sources: SWE-bench 5.0.2 ``harness/grading.py`` and ``harness/log_parsers/python.py``; SWE-bench-Live
``evaluation/evaluation.py`` (branch main) and ``swebench/harness/`` (branch python-only).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session

__all__ = ["StatusMap", "exit_status", "parser_of", "printed_lines", "status_map", "test_output"]

StatusMap = dict[str, str]

STATUS_WORDS = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")  # upstream's five; XPASS is not among them
START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
BAD_CODES = (">>>>> Patch Apply Failed", ">>>>> Reset Failed", ">>>>> Tests Errored", ">>>>> Tests Timed Out")

# the order in which the groups of -rA come
_PRINTED = (
    (Outcome.PASSED, "PASSED"),
    (Outcome.SKIPPED, "SKIPPED"),
    (Outcome.XFAILED, "XFAIL"),
    (Outcome.XPASSED, "XPASS"),
    (Outcome.ERROR, "ERROR"),
    (Outcome.FAILED, "FAILED"),
)
_EXIT_STATUS = re.compile(r">>>>> Test Exit Code:\s*(-?\d+)")
_COUNT_MARK = re.compile(r"\[\d+\]")
_COLOUR_MARK = re.compile(r"\[(\d+)m")
_NO_CONTROLS = dict.fromkeys(range(1, 32))
_OPTION = re.compile(r"(.*?)\[(.*)\]")


def printed_lines(session: Session) -> Iterator[str]:
    """Yield the lines that a grader of text goes by: as they were printed, or as pytest would have printed them.

    A session that did not end prints no summary.
    """
    if session.source == "log":
        yield from session.printed
        return
    if not session.ended:
        return
    for outcome, word in _PRINTED:
        for record in session.tests.values():
            if record.outcome is outcome:
                yield from f"{word} {record.id}".split("\n")
        if outcome is Outcome.ERROR:
            yield from (f"ERROR {error.id}" for error in session.collect_errors if error.id and not error.skipped)


def test_output(lines: Sequence[str]) -> list[str] | None:
    """Return the lines between the harness's markers, or ``None`` where it reports that the run failed.

    Upstream refuses a log without both markers. Logs of other harnesses have neither: those are taken whole.
    """
    if any(code in line for line in lines for code in BAD_CODES):
        return None
    starts = [number for number, line in enumerate(lines) if START in line]
    ends = [number for number, line in enumerate(lines) if END in line]
    if not starts and not ends:
        return list(lines)
    if not starts or not ends:
        return None
    first = starts[0] + 1
    last = min([number for number in (*ends, *starts[1:]) if number >= first], default=len(lines))
    return list(lines[first:last])


test_output.__test__ = False  # type: ignore[attr-defined]  # pytest must not take it for a test


def exit_status(session: Session, lines: Iterable[str]) -> int | None:
    """Return the exit status of the test command: the first that the harness wrote into the log, else the session's."""
    found = next((match for line in lines if (match := _EXIT_STATUS.search(line))), None)
    return int(found[1]) if found else session.exit_status


def status_map(lines: Iterable[str], parser: str, *, drops_counts: bool, whole_ids: bool) -> StatusMap:
    """Return what a parser of that name makes of the lines; later lines win and come last.

    ``drops_counts``: ``SKIPPED [2] file:4: why`` is no test (SWE-bench 5), else a test called ``[2]`` (before).
    ``whole_ids``: ``parse_log_pytest_v2`` keeps ids with spaces (SWE-bench 5), else it cuts them too.
    """
    if parser == "v2" and whole_ids:
        parse: Callable[[str], tuple[str, str] | None] = _whole
    else:
        parse = _PARSERS.get(parser, _first_word)
    statuses: StatusMap = {}
    for line in lines:
        found = parse(line)
        if found is None:
            continue
        test_id, status = found
        if drops_counts and status == "SKIPPED" and _COUNT_MARK.fullmatch(test_id.split(maxsplit=1)[0]):
            continue
        statuses[test_id] = status
    return statuses


def _first_word(line: str) -> tuple[str, str] | None:
    """``parse_log_pytest``: the status and the first word behind it; in failures `` - `` parts words too."""
    if not line.startswith(STATUS_WORDS):
        return None
    words = (line.replace(" - ", " ") if line.startswith("FAILED") else line).split()
    return (words[1], words[0]) if len(words) > 1 else None


def _short_options(line: str) -> tuple[str, str] | None:
    """``parse_log_pytest_options``: a parameter that is an absolute path keeps its last part only."""
    found = _first_word(line)
    option = _OPTION.search(found[0]) if found else None
    if found is None or option is None:
        return found
    name, value = option.groups()
    if value.startswith("/") and not value.startswith("//") and "*" not in value:
        value = "/" + value.split("/")[-1]
    return f"{name}[{value}]", found[1]


def _without_controls(line: str) -> str:
    return _COLOUR_MARK.sub("", line).translate(_NO_CONTROLS)


def _whole(line: str) -> tuple[str, str] | None:
    """``parse_log_pytest_v2`` of SWE-bench 5: the whole id up to `` - ``; or the status at the end of the line."""
    line = _without_controls(line)
    if line.startswith(STATUS_WORDS):
        words = (line.split(" - ", 1)[0] if line.startswith("FAILED") else line).split()
        return (" ".join(words[1:]), words[0]) if len(words) > 1 else None
    if line.endswith(STATUS_WORDS):
        words = line.split()
        return (" ".join(words[:-1]), words[-1]) if len(words) > 1 else None
    return None


def _first_word_v2(line: str) -> tuple[str, str] | None:
    """``parse_log_pytest_v2`` before SWE-bench 5: as the plain parser, colours taken off, status first or last."""
    line = _without_controls(line)
    if line.startswith(STATUS_WORDS):
        return _first_word(line)
    words = line.split()
    return (words[0], words[1]) if line.endswith(STATUS_WORDS) and len(words) > 1 else None


def _mouse_buttons(line: str) -> tuple[str, str] | None:
    """``parse_log_matplotlib``: two enum members are written as the numbers that they once were."""
    return _first_word(line.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def _passed_or_failed(line: str) -> tuple[str, str] | None:
    """``parse_log_seaborn``: passed and failed only, verbose lines too."""
    words = line.split()
    if len(words) < 2:
        return None
    if line.startswith("FAILED"):
        return words[1], "FAILED"
    if " PASSED " in line:
        return (words[0], "PASSED") if words[1] == "PASSED" else None
    return (words[1], "PASSED") if line.startswith("PASSED") else None


_PARSERS = {"v2": _first_word_v2, "options": _short_options, "buttons": _mouse_buttons, "seaborn": _passed_or_failed}

# upstream's own table of the parsers that differ from the plain one; rows of SWE-bench 5 name theirs
_KIND = {
    "parse_log_pytest_v2": "v2",
    "parse_log_astropy": "v2",
    "parse_log_scikit": "v2",
    "parse_log_sphinx": "v2",
    "parse_log_pytest_options": "options",
    "parse_log_pydicom": "options",
    "parse_log_requests": "options",
    "parse_log_pylint": "options",
    "parse_log_matplotlib": "buttons",
    "parse_log_seaborn": "seaborn",
}
_NAME_OF_REPO = {
    "astropy/astropy": "parse_log_astropy",
    "scikit-learn/scikit-learn": "parse_log_scikit",
    "sphinx-doc/sphinx": "parse_log_sphinx",
    "pydicom/pydicom": "parse_log_pydicom",
    "psf/requests": "parse_log_requests",
    "pylint-dev/pylint": "parse_log_pylint",
    "matplotlib/matplotlib": "parse_log_matplotlib",
    "mwaskom/seaborn": "parse_log_seaborn",
}


def parser_of(instance: Instance) -> str:
    """Return the kind of parser that upstream uses for an instance: what its row names, else its repository's."""
    named = instance.row.get("log_parser")
    name = named if isinstance(named, str) and named else _NAME_OF_REPO.get(instance.repo, "parse_log_pytest")
    return _KIND.get(name, "plain")
