"""The shared collection of patches that graders got wrong, and of attacks by patch: each as its own answer says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.errors import PatchError, PatchRejected
from swelive_plugin.workspace.checkout import link_tree
from swelive_plugin.workspace.graded import Application, prepare_graded_tree

from .conftest import diff_of, read

CASES = Path(__file__).parents[2].parent / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not beside the repository")


def text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def of_kind(folder: str, name: str, *kinds: str) -> list[Any]:
    """Return the cases of these kinds as parameters, each with its answer."""
    found = []
    for path in sorted((CASES / folder).glob(f"*/{name}")):
        answer = json.loads(path.read_text("utf-8"))
        if answer["kind"] in kinds:
            found.append(pytest.param(path.parent, answer, id=path.parent.name))
    return found


def prepare(tmp_path: Path, base: Path, prediction: str, test_patch: str, gold: str = "") -> tuple[Application, Path]:
    tree = tmp_path / "tree"
    link_tree(base, tree)
    return (
        prepare_graded_tree(tree, base=base, prediction=prediction, test_patch=test_patch, gold_patch=gold),
        tree,
    )


@pytest.mark.parametrize(("case", "answer"), of_kind("grading", "expected.json", "patch"))
def test_grading_case_of_kind_patch(case: Path, answer: dict[str, Any], tmp_path: Path) -> None:
    expected, given = answer["expected"], case / "input"
    prediction, test_patch = text(given / "agent.patch"), text(given / "test.patch")
    if expected.get("applies") is False:
        rejected = expected["verdict"].startswith("rejected")
        with pytest.raises(PatchRejected if rejected else PatchError):
            prepare(tmp_path, given / "base", prediction, test_patch)
        return
    application, tree = prepare(tmp_path, given / "base", prediction, test_patch)
    assert "assert f(1) == 2" in "".join(path.read_text() for path in tree.glob("tests/**/test_*.py"))
    if expected.get("status") == "empty_patch":
        assert application.strictness == "empty"
    elif "conftest" in expected.get("verdict", ""):
        assert not (tree / "conftest.py").exists()
        assert "conftest.py" in application.flags[0]
    else:
        assert (tree / "src.py").read_bytes().startswith(b"def f(x):\n    return x + 1\n")
        assert application.changed == ("src.py",)
    if (how := expected.get("how", "")) and expected.get("applies"):
        assert application.repairs, how
    if "dump.rdb" in how:
        assert "binary hunk dropped: dump.rdb" in application.repairs


@pytest.mark.parametrize(("case", "answer"), of_kind("grading", "expected.json", "tamper"))
def test_grading_case_of_kind_tamper(case: Path, answer: dict[str, Any], tmp_path: Path) -> None:
    planted = {name: content for name, content in read(case / "input").items() if name != "test_m.py"}
    base = tmp_path / "base"
    base.mkdir()
    test = read(case / "input")["test_m.py"]
    (base / "test_m.py").write_bytes(test)
    test_patch = diff_of(tmp_path / "t", {"test_m.py": test}, {"test_m.py": test + b"# hidden\n"})
    application, tree = prepare(tmp_path, base, diff_of(tmp_path / "p", {}, planted), test_patch)
    assert application.flags, answer["verdict"]
    assert not [name for name in read(tree) if name == "pytest.ini" or ".dist-info/" in name]


ATTACKS = ("patch", "conftest", "config", "plugin-autoload", "shadow", "startup", "binary", "install", "control-good")


@pytest.mark.parametrize(("case", "answer"), of_kind("exploits/cases", "case.json", *ATTACKS))
def test_exploit_by_patch(case: Path, answer: dict[str, Any], tmp_path: Path) -> None:
    root = CASES / "exploits"
    prediction, right = text(case / "patch.diff"), answer["right_verdict"]
    arguments = (root / "base", prediction, text(root / "test.diff"), text(root / "gold.diff"))
    if right.startswith("invalid patch"):
        with pytest.raises(PatchRejected):
            prepare(tmp_path, *arguments)
        return
    application, tree = prepare(tmp_path, *arguments)
    honest = tmp_path / "honest"
    link_tree(root / "base", honest)
    prepare_graded_tree(honest, base=root / "base", prediction="", test_patch=text(root / "test.diff"))
    ours, theirs = read(honest), read(tree)
    for name in ours.keys() | theirs.keys():
        decides = name.startswith("tests/") or name.endswith(("conftest.py", ".ini", ".toml", ".pth", ".gitattributes"))
        if decides:
            assert theirs.get(name) == ours.get(name), f"{name} is not base's"
    assert bool(application.shadows) == right.startswith("tampered: shadowing")
    assert bool(application.flags) == (answer["name"] not in ("gold", "setup-py-install-code"))
