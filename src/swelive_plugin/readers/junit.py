"""The reader of JUnit XML, as pytest writes it (``--junitxml``), through junitparser.

The format holds no node ids. They are rebuilt: exactly where the ``file`` attribute stands (``junit_family=xunit1``),
else from ``classname`` by how test modules and classes are named; the session's notes say so. It knows no XPASS either:
a test that passed against its xfail mark is plainly passed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from swelive_plugin.core.outcome import CollectError, Outcome, Raised, Session, TestRecord, worst
from swelive_plugin.errors import InfraError, UsageError
from swelive_plugin.readers.files import whole
from swelive_plugin.readers.ids import escaped_characters
from swelive_plugin.readers.reports import raised_in, relative_to, skipped_note

__all__ = ["JUnitReader", "rebuilt_id"]

_PLACE = re.compile(r"(.+?):(\d{1,9}): ")
_TEST_MODULE = re.compile(r"test|tests|test_.*|.*_test|.*_tests|unittest_.*")


class JUnitReader:
    """Reads JUnit XML; a document type declaration, and with it every entity trick, is refused."""

    name = "junit"

    def recognises(self, head: bytes) -> bool:
        """Return whether the content begins as XML does and speaks of test suites."""
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        return start.startswith(b"<") and (b"<testsuite" in head or b"<!DOCTYPE" in head or b"<?xml" in start[:64])

    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        """Return the session that the document tells of.

        Raises `InfraError` for a document that breaks off and `UsageError` for hostile XML or another form.
        """
        content = whole(path)
        _refuse_doctype(path, content)
        try:
            # parsed by the standard library, whose input was just found free of declarations
            document = JUnitXml.fromfile(io.BytesIO(content), parse_func=ElementTree.parse)
        except Exception as error:
            raise UsageError(f"{path} is XML, but not JUnit: {error}", hint="name the file of --junitxml") from error
        return _Cases(root).session(_cases(document))


def _refuse_doctype(path: Path, content: bytes) -> None:
    def refuse(*_: object) -> None:
        raise UsageError(
            f"{path} declares a document type: JUnit XML needs none, and entities can blow up or read files",
            hint="write the report again with pytest --junitxml",
        )

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise InfraError(
            f"{path}:{error.lineno}: the XML is broken or breaks off: {expat.errors.messages[error.code]}",
            hint="the report is written at the end of a run: run the tests again",
        ) from error


def _cases(suites: Iterable[object]) -> Iterator[TestCase]:
    for item in suites:
        if isinstance(item, TestCase):
            yield item
        elif isinstance(item, TestSuite):
            yield from _cases(item)  # with the cases of suites inside it


class _Cases:
    def __init__(self, root: str) -> None:
        self.root = root
        self.tests: dict[str, TestRecord] = {}
        self.collect_errors: list[CollectError] = []
        self.rebuilt = 0

    def session(self, cases: Iterable[TestCase]) -> Session:
        for case in cases:
            self._take(case)
        notes = list(skipped_note(self.tests))
        if self.rebuilt:
            notes.append(
                f"{self.rebuilt} ids were rebuilt from classname: the report has no file attribute "
                "(pytest writes it with -o junit_family=xunit1)"
            )
        return Session(
            tests=self.tests, collect_errors=tuple(self.collect_errors), source=JUnitReader.name, notes=tuple(notes)
        )

    def _take(self, case: TestCase) -> None:
        attributes = case._elem.attrib  # junitparser has no accessor for the attributes that pytest adds
        classname, name = case.classname or "", escaped_characters(case.name or "")
        file = relative_to(attributes.get("file") or "", self.root)
        outcome, raised = self._outcome(case)
        if not classname:  # pytest writes so what could not be collected
            place = file or name.replace(".", "/") + ".py"
            told = raised or Raised("")
            skipped = outcome is Outcome.SKIPPED
            self.collect_errors.append(CollectError(place, told.type, told.message, skipped=skipped))
            return
        test_id, certain = rebuilt_id(classname, name, file)
        self.rebuilt += not certain
        ran = outcome in (Outcome.PASSED, Outcome.FAILED) or (
            outcome is Outcome.XFAILED and "[NOTRUN]" not in (raised.message if raised else "")
        )
        record = TestRecord(test_id, outcome, duration_s=float(case.time or 0.0), body_ran=ran, raised=raised)
        known = self.tests.get(test_id)
        if known is None or worst((known.outcome, outcome)) is not known.outcome:
            self.tests[test_id] = record

    def _outcome(self, case: TestCase) -> tuple[Outcome, Raised | None]:
        found: list[tuple[Outcome, Raised | None]] = []
        for result in case.result:
            if isinstance(result, Skipped):
                kind = Outcome.XFAILED if result.type == "pytest.xfail" else Outcome.SKIPPED
                found.append((kind, self._raised(result)))
            elif isinstance(result, Failure):
                found.append((Outcome.FAILED, self._raised(result)))
            elif isinstance(result, Error):
                found.append((Outcome.ERROR, self._raised(result)))
        if not found:
            return Outcome.PASSED, None
        decided = worst(outcome for outcome, _ in found)
        return next(item for item in found if item[0] is decided)

    def _raised(self, result: Skipped | Failure | Error) -> Raised:
        message = str(result.message or "")
        told = raised_in(message) if isinstance(result, Failure) else {"type": "", "msg": message}
        if isinstance(result, Skipped):
            told = {"type": "XFailed" if result.type == "pytest.xfail" else "Skipped", "msg": message}
        if message == "collection failure":
            last = [line[2:].strip() for line in str(result.text or "").splitlines() if line.startswith("E ")]
            told = raised_in(last[-1]) if last else told
        place = _PLACE.match(str(result.text or "").lstrip()) if isinstance(result, Skipped) else None
        file, line = (relative_to(place[1], self.root), int(place[2])) if place else ("", 0)
        return Raised(told["type"], told["msg"], file, line)


def rebuilt_id(classname: str, name: str, file: str = "") -> tuple[str, bool]:
    """Return the node id behind a JUnit test case, and whether it is certain.

    ``file`` names the module, and the rest of ``classname`` the classes. A test inherited from another file carries
    that file: then, and without ``file``, the module is the first part of ``classname`` named like a test module, else
    everything before the first part that begins as classes do.
    """
    if file:
        module = file.removesuffix(".py").replace("/", ".")
        if classname == module or classname.startswith(module + "."):
            classes = classname[len(module) + 1 :]
            return "::".join([file, *(classes.split(".") if classes else []), name]), True
    parts = classname.split(".")
    end = _end_of_module(parts)
    if end is None:
        end = next((number for number, part in enumerate(parts) if part[:1].isupper() and number), len(parts))
    return "::".join(["/".join(parts[:end]) + ".py", *parts[end:], name]), False


def _end_of_module(parts: list[str]) -> int | None:
    """Return how many parts name the module: up to the first that is named like a test module.

    ``tests`` and ``test`` are packages as long as something lower-case follows.
    """
    end = None
    only_classes, modules_follow = True, False  # of what follows a part
    for number in range(len(parts), 0, -1):
        part = parts[number - 1]
        named = _TEST_MODULE.fullmatch(part) is not None
        if named and (only_classes or (part not in ("test", "tests") and not modules_follow)):
            end = number
        only_classes = only_classes and part[:1].isupper()
        modules_follow = modules_follow or named
    return end
