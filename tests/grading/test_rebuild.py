"""Extension modules are built anew where a patch touches their sources: real C and Cython, real environments."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from swelive_plugin.core.verdict import Reason, Status, Verdict
from swelive_plugin.grading.pipeline import grade
from swelive_plugin.grading.settings import Settings
from swelive_plugin.validation.derive import DropReason
from swelive_plugin.validation.validate import Options, validate
from tests.host import Project, diff_of, make_project

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler"),
]

SOURCE = """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "fast.h"

static PyObject *add(PyObject *self, PyObject *args)
{
    long a, b;
    if (!PyArg_ParseTuple(args, "ll", &a, &b)) return NULL;
    return PyLong_FromLong(a OPERATOR b);
}

static PyMethodDef methods[] = {{"add", add, METH_VARARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_fast", "", -1, methods};
PyMODINIT_FUNC PyInit__fast(void) { return PyModule_Create(&module); }
"""
WRONG, RIGHT = SOURCE.replace("OPERATOR", "-"), SOURCE.replace("OPERATOR", "+")
SETUP = """\
from setuptools import Extension, setup
setup(name="quick", version="1", packages=["quick"],
      ext_modules=[Extension("quick._fast", ["src/fast.c"], include_dirs=["src"]),
                   Extension("quick._other", ["src/other.c"], include_dirs=["src"])])
"""
BASE = {
    "pyproject.toml": "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n",
    "setup.py": SETUP,
    "quick/__init__.py": "from quick._fast import add\n\n\ndef name():\n    return 'quick'\n",
    "src/fast.c": WRONG,
    "src/other.c": RIGHT.replace("_fast", "_other"),
    "src/fast.h": "#define ZERO 0\n",
    "tests/test_quick.py": "from quick import name\n\n\ndef test_name():\n    assert name() == 'quick'\n",
}
TESTS = {
    "tests/test_quick.py": "from quick import add, name\n\n\ndef test_name():\n    assert name() == 'quick'\n\n\n"
    "def test_add():\n    assert add(1, 2) == 3\n"
}
F2P, P2P = ["tests/test_quick.py::test_add"], ["tests/test_quick.py::test_name"]
DATE = "2024-06-01T12:00:00+0000"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(
        tmp_path_factory.mktemp("c"), BASE, gold={"src/fast.c": RIGHT}, tests=TESTS, f2p=F2P, p2p=P2P, date=DATE
    )


@pytest.fixture(scope="module")
def settings(project: Project, cache: Path) -> Settings:
    return project.settings(cache, timeout_s=120.0)


@pytest.fixture(autouse=True)
def _host() -> None:
    """Environments are really built here: nothing stands in for their provider."""


def patch(project: Project, files: Mapping[str, str | None]) -> str:
    return diff_of(project.repository, files)


def codes(reasons: tuple[Reason, ...]) -> list[str]:
    return [reason.code for reason in reasons]


def rebuilt(verdict: Verdict) -> list[str]:
    assert verdict.patch.rebuild is not None
    return [path.partition(".")[0] for path in verdict.patch.rebuild.replaced]


@pytest.mark.parametrize("sandbox", ["bwrap", "none"])
def test_gold_that_changes_c_is_resolved_because_it_is_built_anew(
    project: Project, settings: Settings, sandbox: str, tmp_path: Path
) -> None:
    """Defect: the grade kept base's binary, so that gold itself failed and the row was env_error."""
    chosen = replace(settings, sandbox=sandbox)
    verdict = grade(project.instance, project.instance.patch, chosen, folder=tmp_path / "report")
    assert verdict.status is Status.RESOLVED, verdict.reasons
    report = verdict.patch.rebuild
    assert report is not None
    assert report.because == ("src/fast.c",)
    assert report.command == "python setup.py build_ext --inplace --build-lib .swelive-build"
    assert 0 < report.duration_s < 60
    assert rebuilt(verdict) == ["quick/_fast"]  # nothing else is out of date
    assert "src/fast.c" in (tmp_path / "report" / "build_output.txt").read_text()
    assert verdict.integrity.sandbox == {"bwrap": "bubblewrap", "none": "plain"}[sandbox]
    assert "mutants" in verdict.integrity.mutation  # compiled code runs unseen: the tests run with other values too


def test_a_wrong_change_of_c_is_unresolved(project: Project, settings: Settings) -> None:
    verdict = grade(project.instance, patch(project, {"src/fast.c": SOURCE.replace("OPERATOR", "*")}), settings)
    assert (verdict.status, verdict.reward) == (Status.UNRESOLVED, 0.0)
    assert codes(verdict.reasons) == ["f2p-failed"]
    assert rebuilt(verdict) == ["quick/_fast"]


@pytest.mark.parametrize("sandbox", ["bwrap", "none"])
def test_code_that_does_not_compile_is_unresolved_with_the_compilers_words(
    project: Project, settings: Settings, sandbox: str
) -> None:
    broken = patch(project, {"src/fast.c": SOURCE.replace("OPERATOR b)", "+ nowhere)")})
    verdict = grade(project.instance, broken, replace(settings, sandbox=sandbox))
    assert (verdict.status, verdict.reward, codes(verdict.reasons)) == (Status.UNRESOLVED, 0.0, ["does_not_build"])
    said = verdict.reasons[0].message
    assert said.startswith("the project does not build with this patch: src/fast.c:9:")
    assert "error: " in said
    assert "nowhere" in said
    assert "nowhere" in verdict.reasons[0].evidence


def test_a_header_that_no_list_of_dependencies_names_takes_effect(project: Project, settings: Settings) -> None:
    """distutils does not see who includes what: with a header touched, everything is built."""
    header = patch(project, {"src/fast.h": "#error the header was read\n"})
    verdict = grade(project.instance, patch(project, {"src/fast.h": "#define ONE 1\n"}), settings)
    assert rebuilt(verdict) == ["quick/_fast", "quick/_other"]
    verdict = grade(project.instance, header, settings)
    assert verdict.reasons[0].message.endswith("src/fast.h:1:2: error: #error the header was read")


def test_python_alone_builds_nothing(project: Project, settings: Settings, tmp_path: Path) -> None:
    fixed = (
        "from quick._fast import add as minus\n\n\ndef add(a, b):\n    return minus(a, -b)\n\n\n"
        "def name():\n    return 'quick'\n"
    )
    verdict = grade(
        project.instance, patch(project, {"quick/__init__.py": fixed}), settings, folder=tmp_path / "report"
    )
    assert verdict.status is Status.RESOLVED, verdict.reasons
    assert verdict.patch.rebuild is None
    assert verdict.integrity.mutation == "not run"
    assert not (tmp_path / "report" / "build_output.txt").exists()


def test_a_build_that_hangs_is_stopped_at_the_time_limit(project: Project, settings: Settings) -> None:
    hangs = patch(project, {"setup.py": "import time\ntime.sleep(600)\n"})
    grade(project.instance, project.instance.patch, replace(settings, timeout_s=20.0))  # the controls of that limit
    verdict = grade(project.instance, hangs, replace(settings, timeout_s=20.0))
    assert (verdict.status, verdict.reward, codes(verdict.reasons)) == (Status.TIMED_OUT, 0.0, ["does_not_build"])
    assert "limit of wall clock after 20 s" in verdict.reasons[0].message


HOSTILE = """import os, pathlib, subprocess, sys
print("hidden tests seen:", "test_add" in pathlib.Path("tests/test_quick.py").read_text())
for name in ("tests/conftest.py", "conftest.py", "sitecustomize.py", "tests/sitecustomize.py"):
    pathlib.Path(name).write_text("import quick\\nquick.add = lambda a, b: a + b\\n")
pathlib.Path("tests/test_quick.py").write_text("def test_name(): pass\\ndef test_add(): pass\\n")
pathlib.Path("quick/__init__.py").write_text("add = lambda a, b: a + b\\ndef name(): return 'quick'\\n")
pathlib.Path("pytest.ini").write_text("[pytest]\\naddopts = --collect-only\\n")
for folder in {path for path in sys.path if path.endswith("site-packages")} | {"/opt/swelive/build-env"}:
    try:
        pathlib.Path(folder, "evil.pth").write_text("import os; os._exit(0)\\n")
        print("WROTE", folder)
    except OSError as error:
        print("kept out of", folder, error)
try:
    import socket
    socket.create_connection(("1.1.1.1", 53), 1)
    print("NETWORK")
except OSError as error:
    print("no network:", error)
subprocess.Popen(["sleep", "1000"], start_new_session=True)
"""


def test_a_hostile_build_script_reaches_neither_the_tests_nor_the_next_grade(
    project: Project, settings: Settings, tmp_path: Path
) -> None:
    """It may do as it likes in its own copy of the tree: compiled modules alone come back from it."""
    evil = patch(project, {"setup.py": HOSTILE + SETUP})
    verdict = grade(project.instance, evil, replace(settings, sandbox="bwrap"), folder=tmp_path / "report")
    said = (tmp_path / "report" / "build_output.txt").read_text()
    assert (verdict.status, codes(verdict.reasons)) == (Status.UNRESOLVED, ["f2p-failed"]), verdict.reasons
    assert [test.judgement for test in verdict.pass_to_pass] == ["pass"]
    assert said.count("kept out of") >= 2
    assert "no network:" in said
    assert "hidden tests seen: False" in said
    assert not {"WROTE", "NETWORK"} & set(said.split())
    honest = grade(project.instance, project.instance.patch, replace(settings, sandbox="bwrap"))
    assert honest.status is Status.RESOLVED


def test_modules_that_would_be_taken_for_others_stay_out(project: Project, settings: Settings) -> None:
    """An extension module comes before a source file of the same name, and before the standard library in the root."""
    plants = (
        "import os, shutil\n" + SETUP + "made = next(n for n in os.listdir('quick') if n.startswith('_fast.'))\n"
        "for name in ('json', 'conftest', 'tests/test_quick', 'quick/__init__', 'quick/conftest', 'quick/sub/_x'):\n"
        "    os.makedirs(os.path.dirname(name) or '.', exist_ok=True)\n"
        "    shutil.copy('quick/' + made, name + made[5:])\n"
        "os.remove('quick/' + made); os.symlink('/etc/passwd', 'quick/' + made)\n"
    )
    verdict = grade(project.instance, patch(project, {"setup.py": plants}), settings)
    assert verdict.status is Status.UNRESOLVED
    report = verdict.patch.rebuild
    assert report is not None
    assert rebuilt(verdict) == ["quick/_other"]
    assert sorted(told.partition(".")[0] for told in report.refused) == ["quick/__init__", "quick/conftest"]
    assert verdict.review  # and the report asks a person to look


def test_a_new_module_that_gold_does_not_have_is_the_predictions_right(project: Project, settings: Settings) -> None:
    other = RIGHT.replace("_fast", "_faster")
    files = {
        "src/faster.c": other,
        "quick/__init__.py": BASE["quick/__init__.py"].replace("_fast", "_faster"),
        "setup.py": SETUP.replace(
            "ext_modules=[", "ext_modules=[Extension('quick._faster', ['src/faster.c'], include_dirs=['src']), "
        ),
    }
    verdict = grade(project.instance, patch(project, files), settings)
    assert verdict.status is Status.RESOLVED, verdict.reasons
    assert rebuilt(verdict) == ["quick/_fast", "quick/_faster", "quick/_other"]
    assert not verdict.review


def test_gold_that_does_not_compile_judges_nobody(project: Project, settings: Settings) -> None:
    broken = replace(project.instance, patch=patch(project, {"src/fast.c": "broken\n"}))
    verdict = grade(broken, patch(project, {"src/fast.c": SOURCE.replace("OPERATOR", "*")}), settings)
    assert (verdict.status, verdict.reward) == (Status.ENV_ERROR, None)
    assert codes(verdict.reasons)[0] == "gold_control_fails"
    assert "Gold does not build: src/fast.c:1:1: error:" in verdict.reasons[0].message
    also = grade(broken, patch(project, {"src/fast.c": "broken too\n"}), settings)
    assert (also.status, also.reward) == (Status.ENV_ERROR, None)


def test_a_row_is_dropped_with_the_compilers_words(project: Project, settings: Settings, tmp_path: Path) -> None:
    broken = replace(project.instance, patch=patch(project, {"src/fast.c": "broken\n"}), fail_to_pass=())
    once = Options(gold_runs=1, base_runs=1, search=False)
    found = validate(broken, settings, once, folder=tmp_path / "validation")
    assert found.reason is DropReason.NO_FAIL_TO_PASS
    assert "; gold does not build: src/fast.c:1:1: error:" in found.message


def test_where_gold_needs_no_build_the_base_is_the_proof(project: Project, settings: Settings) -> None:
    """A prediction that does not compile is to blame itself, as base does compile here."""
    python = replace(
        project.instance,
        patch=patch(
            project,
            {
                "quick/__init__.py": BASE["quick/__init__.py"].replace(
                    "from quick._fast import add",
                    "from quick._fast import add as minus\n\n\ndef add(a, b):\n    return minus(a, -b)",
                )
            },
        ),
    )
    verdict = grade(python, patch(project, {"src/fast.c": "broken\n"}), settings)
    assert (verdict.status, codes(verdict.reasons)) == (Status.UNRESOLVED, ["does_not_build"])


def test_where_nobody_can_build_again_there_is_no_verdict_on_sources(tmp_path: Path, cache: Path) -> None:
    """As with crates, which only the first build can fetch. A script alone that was touched hurts nobody."""
    setup = (
        "import os\nif 'UV_CACHE_DIR' not in os.environ:\n    raise SystemExit('no matching package named `pyo3`')\n"
    )
    init = (
        "from quick._fast import add as minus\n\n\ndef add(a, b):\n    return minus(a, {}b)\n\n\n"
        "def name():\n    return 'quick'\n"
    )
    base = {**BASE, "setup.py": setup + SETUP, "quick/__init__.py": init.format("")}
    gold = {"quick/__init__.py": init.format("-")}
    project = make_project(tmp_path, base, gold=gold, tests=TESTS, f2p=F2P, p2p=P2P, date=DATE)
    settings = project.settings(cache, timeout_s=120.0)
    why = "cargo needs crates that are not here, and a rebuild has no network"
    in_c = grade(project.instance, patch(project, {**gold, "src/fast.c": RIGHT}), settings)
    assert (in_c.status, in_c.reward, codes(in_c.reasons)) == (Status.ENV_ERROR, None, ["not_rebuilt"])
    assert in_c.reasons[0].message.endswith(f"extension modules can't be built again here: {why}")
    script = grade(project.instance, patch(project, {**gold, "setup.py": setup + SETUP + "# more\n"}), settings)
    assert (script.status, codes(script.warnings)) == (Status.RESOLVED, ["not_rebuilt"])


def test_hidden_tests_bring_compiled_helpers_of_their_own(tmp_path: Path, cache: Path) -> None:
    """They are built from the test patch; a prediction's build can't put its own in their place. And no setup.py."""
    helper = RIGHT.replace("_fast", "_helper").replace('#include "fast.h"\n', "")
    pyproject = BASE["pyproject.toml"] + (
        "[project]\nname = 'quick'\nversion = '1'\n[tool.setuptools]\npackages = ['quick']\next-modules = [\n"
        "    {name = 'quick._fast', sources = ['src/fast.c'], include-dirs = ['src']},\n"
        "    {name = 'tests._helper', sources = ['tests/helper.c']},\n]\n"
    )
    base = {name: text for name, text in BASE.items() if name not in ("setup.py", "src/other.c")} | {
        "pyproject.toml": pyproject,
        "tests/__init__.py": "",
        "tests/helper.c": helper.replace("a + b", "a - b"),
    }
    tests = {
        "tests/helper.c": helper,
        "tests/test_quick.py": "from quick import add\nfrom tests._helper import add as right\n\n\n"
        "def test_add():\n    assert add(1, 2) == right(1, 2) == 3\n",
    }
    project = make_project(
        tmp_path, base, gold={"src/fast.c": RIGHT}, tests=tests, f2p=F2P, p2p=[], date="2025-06-01T12:00:00+0000"
    )
    settings = project.settings(cache, timeout_s=120.0)
    verdict = grade(project.instance, project.instance.patch, settings)
    assert verdict.status is Status.RESOLVED, verdict.reasons
    assert rebuilt(verdict) == ["quick/_fast", "tests/_helper"]
    lenient = (
        "from setuptools import setup\nsetup()\nimport glob, shutil\n"
        "shutil.copy(glob.glob('quick/_fast.*so')[0], glob.glob('tests/_helper.*so')[0])\n"
    )
    evil = grade(project.instance, patch(project, {"setup.py": lenient}), settings)
    assert codes(evil.reasons) == ["f2p-failed"]
    assert "-1" in evil.reasons[0].message  # the project's own answer, held against the true helper's


def test_cython_is_built_anew_from_pyx_pxd_and_the_modules_own_py(tmp_path: Path, cache: Path) -> None:
    base = {
        "pyproject.toml": "[build-system]\nrequires = ['setuptools', 'Cython']\n"
        "build-backend = 'setuptools.build_meta'\n",
        "setup.py": "from setuptools import setup\nfrom Cython.Build import cythonize\n"
        "setup(name='cy', version='1', packages=['cy'], ext_modules=cythonize(['cy/low.pyx', 'cy/pure.py']))\n",
        "cy/__init__.py": "",
        "cy/low.pxd": "cdef inline int twice(int a):\n    return 3 * a\n",
        "cy/low.pyx": "def double(int a):\n    return twice(a)\n",
        "cy/pure.py": "def half(a):\n    return a // 3\n",
        "tests/test_cy.py": "def test_nothing():\n    pass\n",
    }
    tests = {
        "tests/test_cy.py": "from cy import low, pure\n\n\n"
        "def test_compiled():\n    assert pure.__file__.endswith('.so')\n\n\n"
        "def test_cy():\n    assert (low.double(2), pure.half(4)) == (4, 2)\n"
    }
    gold = {"cy/low.pxd": base["cy/low.pxd"].replace("3", "2"), "cy/pure.py": base["cy/pure.py"].replace("3", "2")}
    project = make_project(
        tmp_path, base, gold=gold, tests=tests, f2p=["tests/test_cy.py::test_cy"],
        p2p=["tests/test_cy.py::test_compiled"], date=DATE,
    )  # fmt: skip
    settings = project.settings(cache, timeout_s=120.0)
    verdict = grade(project.instance, project.instance.patch, settings)
    assert verdict.status is Status.RESOLVED, verdict.reasons
    assert rebuilt(verdict) == ["cy/low", "cy/pure"]
    assert verdict.patch.rebuild is not None
    assert verdict.patch.rebuild.because == ("cy/low.pxd", "cy/pure.py")
    bad = grade(
        project.instance, patch(project, {"cy/low.pyx": "def double(int a):\n    return thrice(a)\n"}), settings
    )
    assert codes(bad.reasons) == ["does_not_build"]
    assert "cy/low.pyx:2:11: undeclared name not builtin: thrice" in bad.reasons[0].message


MESON = """\
project('quick', 'c', version: '1')
py = import('python').find_installation(pure: false)
py.install_sources(['quick/__init__.py'], subdir: 'quick')
py.extension_module('_fast', 'src/fast.c', install: true, subdir: 'quick')
"""


def meson_project(folder: Path) -> Project:
    base = {
        **{name: text for name, text in BASE.items() if name != "setup.py"},
        "pyproject.toml": "[build-system]\nrequires = ['meson-python']\nbuild-backend = 'mesonpy'\n"
        "[project]\nname = 'quick'\nversion = '1'\n",
        "meson.build": MESON,
    }
    return make_project(folder, base, gold={"src/fast.c": RIGHT}, tests=TESTS, f2p=F2P, p2p=P2P, date=DATE)


def test_meson_builds_before_the_session_and_finds_nothing_to_do_in_it(tmp_path: Path, cache: Path) -> None:
    """Its editable installs run ninja on import; build scripts of a prediction have no business in the session."""
    project = meson_project(tmp_path)
    settings = project.settings(cache, timeout_s=120.0, sandbox="bwrap")
    verdict = grade(project.instance, project.instance.patch, settings)
    assert verdict.status is Status.RESOLVED, verdict.reasons
    report = verdict.patch.rebuild
    assert report is not None
    assert report.command == "ninja"
    names = [path.rpartition("/")[2].partition(".")[0] for path in report.replaced]
    assert names == ["_fast", "intro-install_plan"]
    broken = grade(
        project.instance, patch(project, {"src/fast.c": SOURCE.replace("OPERATOR b)", "+ nowhere)")}), settings
    )
    assert codes(broken.reasons) == ["does_not_build"]
    assert "nowhere" in broken.reasons[0].message
    script = MESON.replace("'quick/__init__.py'", "'quick/__init__.py', 'quick/more.py'") + (
        "run_command('sh', '-c', 'echo evil > tests/test_quick.py; echo \"def name(): return 1\" > quick/__init__.py', "
        "check: true)\n"
        "custom_target('evil', output: 'evil', build_always_stale: true, build_by_default: true,\n"
        "    command: ['sh', '-c', 'echo evil > /testbed/tests/test_quick.py; touch evil'])\n"
    )
    files = {
        "meson.build": script,
        "quick/__init__.py": "from quick.more import add\n" + BASE["quick/__init__.py"].split("\n", 1)[1],
        "quick/more.py": "def add(a, b):\n    return a + b\n",
    }
    moved = grade(project.instance, patch(project, files), settings)
    assert moved.status is Status.RESOLVED, moved.reasons  # a new module is found; what the script wrote is nowhere


def test_meson_without_a_sandbox_is_left_alone_and_says_why(tmp_path: Path, cache: Path) -> None:
    project = meson_project(tmp_path)
    verdict = grade(project.instance, project.instance.patch, project.settings(cache, timeout_s=120.0, sandbox="none"))
    assert (verdict.status, verdict.reward) == (Status.ENV_ERROR, None)
    assert "meson's build folder holds absolute paths: it needs the sandbox" in verdict.reasons[0].message


def test_modules_in_the_package_folder_are_shown_anew_to_the_session_alone(tmp_path: Path, cache: Path) -> None:
    """scikit-build-core installs compiled modules into the environment, which is read-only and everybody's."""
    base = {
        **{name: text for name, text in BASE.items() if name != "setup.py"},
        "pyproject.toml": "[build-system]\nrequires = ['scikit-build-core']\n"
        "build-backend = 'scikit_build_core.build'\n[project]\nname = 'quick'\nversion = '1'\n",
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.15...3.27)\nproject(quick LANGUAGES C)\n"
        "find_package(Python COMPONENTS Interpreter Development.Module REQUIRED)\n"
        "python_add_library(_fast MODULE src/fast.c WITH_SOABI)\ninstall(TARGETS _fast DESTINATION quick)\n",
    }
    project = make_project(tmp_path, base, gold={"src/fast.c": RIGHT}, tests=TESTS, f2p=F2P, p2p=P2P, date=DATE)
    settings = project.settings(cache, timeout_s=120.0, sandbox="bwrap")
    verdict = grade(project.instance, project.instance.patch, settings, folder=tmp_path / "report")
    assert verdict.status is Status.RESOLVED, verdict.reasons
    assert rebuilt(verdict) == ["site-packages/quick/_fast"]
    assert verdict.patch.rebuild is not None
    assert verdict.patch.rebuild.command == "scikit_build_core.build build_editable"
    wrong = grade(project.instance, patch(project, {"src/fast.c": SOURCE.replace("OPERATOR", "*")}), settings)
    assert codes(wrong.reasons) == ["f2p-failed"]
    broken = grade(
        project.instance, patch(project, {"src/fast.c": SOURCE.replace("OPERATOR b)", "+ nowhere)")}), settings
    )
    assert codes(broken.reasons) == ["does_not_build"]
    assert "nowhere" in broken.reasons[0].message
    plain = grade(project.instance, project.instance.patch, replace(settings, sandbox="none"))
    assert (plain.status, plain.reward) == (Status.ENV_ERROR, None)
    assert "compiled modules lie in the environment: it needs the sandbox" in plain.reasons[0].message
