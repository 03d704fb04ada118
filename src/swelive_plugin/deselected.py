"""What the arguments of a person's own command line leave out of a session: no patch is to blame for that.

Only those arguments count. What an ini file, a variable or a conftest.py leaves out may be the patch's doing.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.testid import Matcher, file_of
from swelive_plugin.core.verdict import Reason, Status, TestVerdict, Verdict

__all__ = ["Deselected", "without_deselected"]

# pytest's own options (its name for the value, how it is written) that take collected tests away
_DESELECT = {"keyword": "-k", "markexpr": "-m", "deselect": "--deselect", "lf": "--lf", "stepwise": "--stepwise"}
_IGNORE = {"ignore": "--ignore", "ignore_glob": "--ignore-glob"}
_SETTLED = frozenset({Outcome.FAILED, Outcome.ERROR, Outcome.CRASHED, Outcome.TIMED_OUT})


@dataclass(frozen=True)
class Deselected:
    """Arguments that narrow a session in ``root``: the files or tests named, paths ignored, options that deselect."""

    root: Path = Path()
    named: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    ignored_globs: tuple[str, ...] = ()
    deselects: bool = False
    skips_files: bool = False  # --lf leaves files out whole
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: argparse.Namespace, root: Path) -> Deselected:
        """Return what parsed arguments narrow. Names of modules (``--pyargs``) narrow nothing that could be told."""
        named = () if getattr(given, "pyargs", False) else tuple(map(str, getattr(given, "file_or_dir", None) or ()))
        words = [f"only {' '.join(named)}"] if named else []
        for name, option in {**_DESELECT, **_IGNORE}.items():
            value = getattr(given, name, None)
            if value:
                values = value if isinstance(value, list) else [value]
                words += [option if each is True else f"{option} {each}" for each in values]
        return cls(
            root=root,
            named=named,
            ignored=tuple(map(str, getattr(given, "ignore", None) or ())),
            ignored_globs=tuple(map(str, getattr(given, "ignore_glob", None) or ())),
            deselects=any(getattr(given, name, None) for name in _DESELECT),
            skips_files=bool(getattr(given, "lf", False)),
            words=tuple(words),
        )

    def why_not_run(self, test_id: str, outcomes: frozenset[Outcome]) -> str:
        """Return why the arguments kept a recorded test from being run, or nothing where they did not.

        ``outcomes`` are those of the tests that were collected for it, deselected ones among them.
        """
        if self.deselects and Outcome.DESELECTED in outcomes and not outcomes & _SETTLED:
            return "you deselected it"
        if outcomes:
            return ""
        file, _, rest = test_id.partition("::")
        path = self._path(file_of(file))
        if self.named and not any(self._within(path, each.partition("::")[0]) for each in self.named):
            return "its file was not run"
        if self.named and not any(self._names(each, path, rest) for each in self.named):
            return "it is none of the tests that you named"
        if any(self._within(path, each) for each in self.ignored):
            return "its file was not run"
        if any(fnmatch(path, self._path(each)) for each in self.ignored_globs):
            return "its file was not run"
        return "you asked for tests that failed before" if self.skips_files else ""

    def _path(self, name: str) -> str:
        return os.path.realpath(self.root / name)

    def _within(self, path: str, name: str) -> bool:
        above = self._path(name)
        return path == above or path.startswith(above.rstrip(os.sep) + os.sep)

    def _names(self, argument: str, path: str, rest: str) -> bool:
        name, _, wanted = argument.partition("::")
        if not self._within(path, name):
            return False
        # a recorded id may be cut inside its brackets
        return not wanted or rest == wanted or rest.startswith((wanted + "[", wanted + "::")) or wanted.startswith(rest)


def without_deselected(verdict: Verdict, session: Session, deselected: Deselected, *, root: str) -> Verdict:
    """Return the verdict with the true reason for tests that the arguments left out.

    Where nothing else speaks against the patch, that is no verdict on it: ``error``, reward ``None``.
    """
    if verdict.status is not Status.UNRESOLVED or not deselected.words or session.internal_error:
        return verdict
    matcher = Matcher(session.tests, root=root)

    def why(test: TestVerdict) -> str:
        found = matcher.match(test.id).reported
        return deselected.why_not_run(test.id, frozenset(session.tests[each].outcome for each in found))

    failed = [test for test in (*verdict.fail_to_pass, *verdict.pass_to_pass) if test.judgement == "fail"]
    left_out = {test.id: because for test in failed if (because := why(test))}
    if not left_out:
        return verdict

    def told(tests: tuple[TestVerdict, ...]) -> tuple[TestVerdict, ...]:
        return tuple(replace(test, message=left_out.get(test.id, test.message)) for test in tests)

    reasons = tuple(replace(each, message=left_out.get(each.test, each.message)) for each in verdict.reasons)
    judged = replace(
        verdict, reasons=reasons, fail_to_pass=told(verdict.fail_to_pass), pass_to_pass=told(verdict.pass_to_pass)
    )
    if len(left_out) < len({test.id for test in failed}):
        return judged
    number = "1 listed test was" if len(left_out) == 1 else f"{len(left_out)} listed tests were"
    message = f"you narrowed the run: {', '.join(deselected.words)}: {number} not run"
    return replace(judged, status=Status.ERROR, reasons=(Reason("narrowed", message), *reasons))
