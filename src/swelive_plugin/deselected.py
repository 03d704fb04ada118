"""What the arguments of a person's own command line leave out of a session: no patch is to blame for that.

Only those arguments count. What an ini file, a variable or a conftest.py leaves out may be the patch's doing.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.testid import Matcher, file_of

__all__ = ["Deselected"]

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
    arguments: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: argparse.Namespace, root: Path) -> Deselected:
        """Return what parsed arguments narrow. Names of modules (``--pyargs``) narrow nothing that could be told."""
        named = () if getattr(given, "pyargs", False) else tuple(map(str, getattr(given, "file_or_dir", None) or ()))
        arguments = [f"only {' '.join(named)}"] if named else []
        for name, option in {**_DESELECT, **_IGNORE}.items():
            value = getattr(given, name, None)
            if value:
                values = value if isinstance(value, list) else [value]
                arguments += [option if each is True else f"{option} {each}" for each in values]
        return cls(
            root=root,
            named=named,
            ignored=tuple(map(str, getattr(given, "ignore", None) or ())),
            ignored_globs=tuple(map(str, getattr(given, "ignore_glob", None) or ())),
            deselects=any(getattr(given, name, None) for name in _DESELECT),
            skips_files=bool(getattr(given, "lf", False)),
            arguments=tuple(arguments),
        )

    def listed_not_run(self, instance: Instance, session: Session) -> dict[str, str]:
        """Return for each listed test of the instance that the arguments left out of the session why it did not run."""
        if not self.arguments:
            return {}
        matcher = Matcher(session.tests, root=str(self.root))
        reasons = {
            test_id: self.why_not_run(
                test_id, frozenset(session.tests[each].outcome for each in matcher.match(test_id).reported)
            )
            for test_id in (*instance.fail_to_pass, *instance.pass_to_pass)
        }
        return {test_id: reason for test_id, reason in reasons.items() if reason}

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
