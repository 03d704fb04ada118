"""What a failed build says, and what of meson's plan a prediction may change: no build is run here."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from swelive_plugin.core.decide import Evidence, Rebuild, decide
from swelive_plugin.core.extension_modules import Compiled, why_rebuild
from swelive_plugin.core.verdict import Finding, Integrity, RebuildReport, Status
from swelive_plugin.environments import Environment
from swelive_plugin.grading.rebuild import (
    Harvest,
    Rebuilt,
    is_plain_file,
    modules_in,
    plan_may_come_back,
    rebuilt_from,
    words_of,
)
from swelive_plugin.sandbox import Completed, EndedBy
from tests.core.build import instance, session

FAILED = Completed(1, "exit", 2.0)

GCC = """\
gcc -c src/fast.c
/testbed/src/fast.c: In function 'add':
/testbed/src/fast.c:9:5: error: 'x' undeclared
error: command '/usr/bin/gcc' failed with exit code 1
"""
HEADER = "src/fast.c:1:10: fatal error: missing.h: No such file\n"
CYTHON = """\
Error compiling Cython file:
------------------------------------------------------------
...
------------------------------------------------------------

cy/low.pyx:2:11: undeclared name not builtin: thrice
Traceback (most recent call last):
Cython.Compiler.Errors.CompileError: cy/low.pyx
"""
RUSTC = """\
error[E0425]: cannot find value `y` in this scope
 --> src/lib.rs:3:5
  |
"""
CARGO_OFFLINE = """\
error: no matching package named `pyo3` found
location searched: crates.io index
As a reminder, you're using offline mode (--offline) which can sometimes cause surprising failures
"""
CARGO_ONLINE = """\
error: failed to get `pyo3` as a dependency of package
  download of config.json failed
  Could not resolve host: index.crates.io
"""
MESON = '../meson.build:4:0: ERROR: Unknown function "x".\n'
SCRIPT = """\
Traceback (most recent call last):
  File "setup.py"
NameError: name 'x' is not defined
"""
NO_CRATES = "cargo needs crates that are not here, and a rebuild has no network"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (GCC, "src/fast.c:9:5: error: 'x' undeclared"),
        (HEADER, HEADER.strip()),
        (CYTHON, "cy/low.pyx:2:11: undeclared name not builtin: thrice"),
        (RUSTC, "error[E0425]: cannot find value `y` in this scope --> src/lib.rs:3:5"),
        (CARGO_OFFLINE, NO_CRATES),
        (CARGO_ONLINE, NO_CRATES),
        (MESON, MESON.strip()),
        (SCRIPT, "NameError: name 'x' is not defined"),
        ("", "it printed nothing"),
    ],
)
def test_the_line_of_a_failed_build_that_tells_most(output: str, words: str) -> None:
    assert words_of(output, FAILED) == words


@pytest.mark.parametrize(
    ("ended_by", "words"),
    [
        ("wall_clock", "stopped at its limit of wall clock after 2 s"),
        ("memory", "stopped at its limit of memory after 2 s"),
    ],
)
def test_a_build_that_was_stopped_says_at_which_limit(ended_by: EndedBy, words: str) -> None:
    assert words_of("src/fast.c:9:5: error: x\n", Completed(-9, ended_by, 2.0)) == words


def entries(*pairs: tuple[str, str]) -> bytes:
    return json.dumps({"python": {source: {"destination": name} for source, name in pairs}}).encode()


BASE_PLAN = entries(
    ("/testbed/pkg/__init__.py", "{py_purelib}/pkg/__init__.py"),
    ("/testbed/pkg/tests/test_x.py", "{py_purelib}/pkg/tests/test_x.py"),
    ("/testbed/build/cp311/pkg/_fast.so", "{py_platlib}/pkg/_fast.so"),
    ("/testbed/odd/source.py", "{py_purelib}/pkg/renamed.py"),
    ("/testbed/doc/x.1", "{mandir}/x.1"),
)


@pytest.mark.parametrize(
    ("new", "fits"),
    [
        (BASE_PLAN, True),
        (entries(("/testbed/pkg/more.py", "{py_purelib}/pkg/more.py")), True),
        (entries(("/testbed/build/cp311/pkg/_new.so", "{py_platlib}/pkg/_new.so")), True),
        (entries(("/testbed/odd/source.py", "{py_purelib}/pkg/renamed.py")), True),
        (entries(("/testbed/evil.py", "{py_purelib}/pkg/tests/test_x.py")), False),
        (entries(("/testbed/evil/pkg/tests/test_x.py", "{py_purelib}/pkg/tests/test_x.py")), False),
        (entries(("/testbed/odd/other.py", "{py_purelib}/pkg/renamed.py")), False),
        (entries(("/testbed/evil", "{mandir}/evil")), True),  # nothing is imported from there
        (b"{", False),
        (b"[]", False),
        (b'{"python": {"/x": 1}}', False),
    ],
)
def test_mesons_plan_takes_each_module_from_where_it_must_be(new: bytes, fits: bool) -> None:
    assert plan_may_come_back(BASE_PLAN, new) is fits


def not_rebuilt(*because: str, tmp: str = "/nonexistent") -> Rebuilt:
    return Rebuilt(RebuildReport(because, failed="no crates"), Path(tmp))


@pytest.mark.parametrize(
    ("because", "before", "after"),
    [
        (("src/lib.rs",), Status.RESOLVED, Status.ENV_ERROR),
        (("src/lib.rs",), Status.UNRESOLVED, Status.ENV_ERROR),
        (("src/lib.rs",), Status.TAMPERED, Status.TAMPERED),
        (("Cargo.toml", "setup.py"), Status.RESOLVED, Status.RESOLVED),
        (("Cargo.toml", "setup.py"), Status.UNRESOLVED, Status.ENV_ERROR),
    ],
)
def test_sources_that_had_no_effect_give_no_verdict(because: tuple[str, ...], before: Status, after: Status) -> None:
    rebuild = Rebuild(not_rebuilt(*because).report, possible=False)
    outcome = "failed" if before is Status.UNRESOLVED else "passed"
    forged = Integrity(findings=(Finding("hooks", "tampered", "a hook was replaced"),))
    evidence = Evidence(instance(["t.py::a"]), session=session({"t.py::a": outcome}), rebuild=rebuild)
    if before is Status.TAMPERED:
        evidence = replace(evidence, integrity=forged)
    verdict = decide(evidence)
    assert verdict.status is after
    said = [reason.message for reason in (*verdict.reasons, *verdict.warnings) if reason.code == "not_rebuilt"]
    assert len(said) == (after is not Status.TAMPERED)
    assert all("no crates" in message for message in said)


def test_a_kept_rebuild_comes_back_as_it_was() -> None:
    before = not_rebuilt("a.c", tmp="/kept/built")
    assert rebuilt_from(json.loads(json.dumps(before.as_dict())), Path("/kept/built")) == before
    assert rebuilt_from(None, Path("/kept")) is None


def test_rust_asks_for_a_rebuild_that_can_only_fail() -> None:
    """The decision alone: no crate can be had without the network."""
    rust = Compiled("hook", ("python/pkg/_native.abi3.so",))
    assert why_rebuild(["src/lib.rs", "Cargo.lock", "README.md"], rust) == ("src/lib.rs", "Cargo.lock")


def test_nothing_is_taken_through_a_link_that_a_build_left(tmp_path: Path) -> None:
    """A script may put links in the place of folders and modules: what they lead to is the host's."""
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    for folder in (outside, tree / "pkg" / "sub"):
        folder.mkdir(parents=True)
    (outside / "_secret.so").write_text("secret")
    (tree / "pkg" / "_true.so").write_text("")
    (tree / "pkg" / "_link.so").symlink_to(outside / "_secret.so")
    (tree / "pkg" / "_folder.so").mkdir()
    os.mkfifo(tree / "pkg" / "_pipe.so")
    (tree / "other").symlink_to(outside)
    assert [path for path, _ in modules_in(tree, "pkg")] == ["pkg/_true.so"]
    assert modules_in(tree, "other") == modules_in(tree, "missing") == modules_in(tree, "pkg/_true.so") == []
    assert is_plain_file(tree, "pkg/_true.so")
    assert not any(
        map(partial(is_plain_file, tree), ("pkg/_link.so", "other/_secret.so", "pkg/_folder.so", "pkg/_pipe.so"))
    )


def test_an_untrusted_wheel_gives_what_base_has_and_nothing_else(tmp_path: Path) -> None:
    wheel, built = tmp_path / "wheel", tmp_path / "built"
    wheel.mkdir()
    with zipfile.ZipFile(wheel / "quick-1.whl", "w") as archive:
        for name in ("quick/_fast.so", "quick/_more.so", "../../evil.so", "evil.pth", "quick/__init__.py"):
            archive.writestr(name, name)
    (wheel / "broken.whl").write_bytes(b"PK no zip at all")
    (wheel / "link.whl").symlink_to(wheel / "quick-1.whl")
    environment = Environment("key", tmp_path, "python", (3, 11, 7), (), tmp_path, ())
    harvest = Harvest(tmp_path, built, environment, frozenset(), frozenset(), trusted=False)
    harvest.wheel(wheel, {"quick/_fast.so"})
    assert harvest.taken == ["site-packages/quick/_fast.so"]
    assert [told.partition(":")[0] for told in harvest.refused] == ["broken.whl"]
    assert [path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()] == harvest.taken
