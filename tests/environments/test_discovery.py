"""What a repository says about itself: packaging files, test jobs, pytest's configuration, the tests' own imports."""

# ruff: noqa: E501  the lines of other people's files are as long as they are
from __future__ import annotations

from datetime import datetime, timezone

import pytest

from swelive_plugin.errors import UsageError
from swelive_plugin.recipes.declared import read_declared
from swelive_plugin.recipes.discovery import discover
from swelive_plugin.recipes.hints import read_hints
from swelive_plugin.recipes.listing import FolderFiles, MemoryFiles
from swelive_plugin.recipes.pytest_needs import distribution_of, imports_of, needs_of_configuration, needs_of_tests
from swelive_plugin.recipes.recipe import Recipe, recipe_from_toml, recipe_to_toml

DATE = datetime(2024, 10, 18, tzinfo=timezone.utc)
MINORS = [(3, 9), (3, 10), (3, 11), (3, 12)]


def first(files: dict[str, str], **more: object) -> Recipe:
    return discover(MemoryFiles(files), commit_date=DATE, minors=MINORS, **more)[0]  # type: ignore[arg-type]


def names(recipe: Recipe) -> set[str]:
    return {
        line.split("[")[0].split("<")[0].split(">")[0].split("=")[0].split(";")[0].strip()
        for line in recipe.requirements
    }


def test_pyproject_with_extras_and_groups() -> None:
    recipe = first(
        {
            "pyproject.toml": """
[build-system]
requires = ["hatchling", "hatch-vcs"]
build-backend = "hatchling.build"
[project]
name = "My-Lib"
requires-python = ">=3.10"
[project.optional-dependencies]
tests = ["pytest-mock"]
docs = ["sphinx"]
[dependency-groups]
test = [{include-group = "base"}, "pytest-timeout==2.1"]
base = ["attrs"]
docs = ["furo"]
"""
        }
    )
    assert (recipe.project, recipe.install, recipe.extras, recipe.python) == ("My-Lib", "editable", ("tests",), "3.11")
    assert {"attrs", "pytest-timeout", "pytest", "pip"} <= names(recipe)
    assert "furo" not in names(recipe)
    assert (recipe.build_requires, recipe.scm_version) == (("hatchling", "hatch-vcs"), True)
    assert recipe.cutoff == "2024-10-18T00:00:00Z"


def test_poetry_groups_are_not_extras_and_become_requirements() -> None:
    recipe = first(
        {
            "pyproject.toml": """
[tool.poetry]
name = "lib"
[tool.poetry.dependencies]
python = ">=3.8.1,<3.11"
[tool.poetry.group.dev.dependencies]
pytest = "^7.4.0"
toml = "^0.10.2"
black = "^23"
[tool.poetry.dev-dependencies]
mock = "*"
"""
        }
    )
    assert recipe.python == "3.10"
    assert {"pytest<8,>=7.4.0", "toml<0.11,>=0.10.2", "mock"} <= set(recipe.requirements)
    assert "black" not in names(recipe)  # it only formats, and no test imports it
    assert recipe.extras == ()


def test_a_tool_that_the_tests_import_is_kept() -> None:
    recipe = first(
        {
            "setup.cfg": "[metadata]\nname=x\n",
            "requirements-dev.txt": "black\nflake8\n",
            "tests/conftest.py": "import black\n",
        }
    )
    assert "black" in names(recipe)
    assert "flake8" not in names(recipe)


@pytest.mark.parametrize(
    "text",
    [
        "from setuptools import setup\nEXTRA = {'test': ['mock'], 'docs': ['sphinx']}\nsetup(name='x', extras_require=EXTRA)\n",
        "import setuptools as s\ns.setup(name='x', extras_require=dict(test=['mock']))\n",
        "from setuptools import setup\nextras = {}\nextras['test'] = ['mock']\nsetup(name='x', extras_require=extras)\n",
        "from setuptools import setup\nBASE = ['mock']\nconfig = {'name': 'x', 'extras_require': {'test': BASE + ['six']}}\nsetup(**config)\n",
        "from setuptools import setup\ndef read(): ...\nsetup(name='x', extras_require={'test': read()})\n",
    ],
)
def test_setup_py_is_read_and_never_run(text: str) -> None:
    assert first({"setup.py": text}).extras == ("test",)


def test_what_setup_py_needs_to_build_is_installed_before_it_runs() -> None:
    """Older setuptools would fetch it by themselves, with no cut-off and past the user's index."""
    text = "from setuptools import setup\nsetup(name='x', setup_requires=['pytest-runner>=2'], extras_require={':os_name==1': ['a'], 'test': ['b']})\n"
    recipe = first({"setup.py": text})
    assert recipe.build_requires == ("setuptools", "wheel", "pytest-runner>=2")
    assert recipe.extras == ("test",)


def test_setup_py_that_is_python_2_is_named_and_still_installed() -> None:
    recipe = first({"setup.py": "print 'hello'\n"})
    assert recipe.install == "editable"
    assert any(line.startswith("broken, passed over: setup.py") for line in recipe.reasons)


def test_a_broken_pyproject_is_named_and_passed_over() -> None:
    recipe = first(
        {"pyproject.toml": "[project\nname=", "setup.cfg": "[metadata]\nname = x\n[options]\npython_requires = >=3.9\n"}
    )
    assert recipe.project == "x"
    assert any("pyproject.toml" in line for line in recipe.reasons)


def test_setup_cfg_and_tox_and_its_requirement_file() -> None:
    recipe = first(
        {
            "setup.cfg": "[metadata]\nname = x\n[options.extras_require]\ntest =\n  mock\n",
            "setup.py": "from setuptools import setup\nsetup()\n",
            "tox.ini": "[tox]\nenvlist = py39,py310\n[testenv]\ndeps =\n  -r{toxinidir}/misc/wanted.txt\n  coverage\n  dev: numpy-nightly\n"
            "  {[base]deps}\nextras = test\ncommands = pytest {posargs}\n[base]\ndeps = trustme\n[testenv:docs]\ndeps = sphinx-x\ncommands = sphinx-build\n",
            "misc/wanted.txt": "hypothesis\n",
        }
    )
    assert recipe.python == "3.10"
    assert {"hypothesis", "coverage", "trustme"} <= names(recipe)
    assert not {"sphinx-x", "numpy-nightly"} & names(recipe)


def test_workflows_are_read_for_tests_and_not_for_documents() -> None:
    files = MemoryFiles(
        {
            ".github/workflows/tests.yml": """
jobs:
  test:
    strategy:
      matrix:
        python-version: ["3.9", "3.10", '3.11']
    steps:
      - run: sudo apt-get install -y libxml2-dev graphviz
      - run: |
          python -m pip install --upgrade pip wheel
          pip install -r requirements/ci.txt ${{ matrix.package }} "mock>=2" \\
             -e '.[async,http2]'
          pytest
""",
            ".github/workflows/docs.yml": "jobs:\n  d:\n    steps:\n      - run: pip install sphinx pytest\n",
        }
    )
    hints = read_hints(files)
    assert hints.tested == {(3, 9), (3, 10), (3, 11)}
    assert hints.wanted.files == ["requirements/ci.txt"]
    assert hints.wanted.extras == ["async", "http2"]
    assert hints.wanted.requirements == ["pip", "wheel", "mock>=2"]  # and no word of the template
    assert hints.system == ["libxml2-dev", "graphviz"]


def test_folders_that_the_test_job_makes_are_made_too() -> None:
    """Git keeps no empty folder: a database that tests open in one is not there without that step."""
    job = (
        "jobs:\n  test:\n    steps:\n      - run: |\n          pip install six\n          mkdir data && mkdir -p var/log out\n"
        "          mkdir /opt/elsewhere ~/.here ../above $HOME/x\n      - run: python manage.py test\n"
    )
    recipe = first({".github/workflows/main.yml": job, "pyproject.toml": "[project]\nname='p'\n"})
    assert recipe.folders == ("data", "var/log", "out")


def test_nox_sessions_and_the_options_of_newer_tools() -> None:
    files = MemoryFiles(
        {
            "noxfile.py": "import nox\n@nox.session\ndef tests(session):\n    session.install('-e', '.[testing]', 'trustme')\n    session.run('pytest')\n"
            "@nox.session\ndef docs(session):\n    session.install('sphinx')\n",
            ".github/workflows/ci.yml": "      - run: poetry install --with test --extras 'redis sql'\n      - run: uv sync --group ci --extra fast\n      - run: pytest\n",
        }
    )
    wanted = read_hints(files).wanted
    assert wanted.extras == ["redis", "sql", "fast", "testing"]
    assert wanted.groups == ["test", "ci"]
    assert wanted.requirements == ["trustme"]


@pytest.mark.parametrize(
    ("files", "plugins"),
    [
        (
            {"pytest.ini": "[pytest]\naddopts = --cov=x -n auto --timeout=5\n"},
            {"pytest-cov", "pytest-xdist", "pytest-timeout"},
        ),
        (
            {"setup.cfg": "[tool:pytest]\naddopts = --doctest-rst --mpl\ntext_file_format = rst\n"},
            {"pytest-doctestplus", "pytest-mpl"},
        ),
        (
            {"pyproject.toml": "[tool.pytest.ini_options]\nasyncio_mode='auto'\nrequired_plugins=['pytest-x>=1']\n"},
            {"pytest-asyncio", "pytest-x>=1"},
        ),
        (
            {"tox.ini": "[pytest]\nDJANGO_SETTINGS_MODULE = s\naddopts = -p no:cacheprovider -p pytest_httpbin\n"},
            {"pytest-django", "pytest-httpbin"},
        ),
        ({"pytest.ini": "[pytest]\naddopts = -ra -q --strict-markers --durations=5 -p no:warnings\n"}, set()),
    ],
)
def test_the_plugins_that_the_configuration_names(files: dict[str, str], plugins: set[str]) -> None:
    assert set(needs_of_configuration(MemoryFiles(files))) == plugins


def test_what_the_tests_import_and_ask_for() -> None:
    text = (
        "from __future__ import annotations\nimport os, yaml\nimport mylib.core\nfrom helpers import x\nfrom . import y\n"
        "try:\n    import optional\nexcept ImportError: ...\n"
        "def test_a(mocker, own): ...\n@pytest.mark.asyncio\nasync def test_b(): ...\n"
    )
    found = needs_of_tests({"tests/test_a.py": text, "tests/conftest.py": "def own(): ...\n"}, ["mylib", "helpers"])
    assert set(found) == {"PyYAML", "pytest-mock", "pytest-asyncio"}


def test_a_fixture_that_the_project_defines_needs_no_plugin() -> None:
    found = needs_of_tests(
        {"conftest.py": "@fixture\ndef mocker(): ...\n", "test_a.py": "def test_a(mocker): ...\n"}, []
    )
    assert found == {}


def test_imports_of_part_of_a_file_are_found_by_lines() -> None:
    assert imports_of("import a.b\nfrom c import (\n    d,\n") == ["a.b", "c"]


def test_names_of_distributions() -> None:
    assert distribution_of("google.protobuf.json_format") == "protobuf"
    assert distribution_of("google.cloud_storage.blob") == "google-cloud-storage"
    assert distribution_of("google.oauth2.credentials") == "google-auth"
    assert distribution_of("google") == ""  # a namespace: nothing tells which
    assert distribution_of("some_thing.sub") == "some-thing"
    assert distribution_of("os.path") == ""
    assert distribution_of("_private") == ""


def test_the_hidden_tests_added_imports_count() -> None:
    recipe = first(
        {"setup.py": "", "tests/test_a.py": ""},
        test_paths=["tests/test_a.py"],
        added_tests={"tests/test_a.py": "import jsonpatch"},
    )
    assert "jsonpatch" in names(recipe)


def test_what_data_files_of_the_tests_import_is_no_need() -> None:
    """A linter's samples import what the registry has under those names, and nobody wants it."""
    added = {
        "tests/fixtures/noqa/noqa.py": "import import1\n",
        "tests/fixtures/test_real.py": "import respx\n",
        "tests/helpers.py": "import trustme\n",
        "docs/notes.txt": "import soon\n",
    }
    recipe = first(
        {"pyproject.toml": "[project]\nname='p'\n", "tests/fixtures/noqa/other.py": "import import2\n"},
        test_paths=[*added, "tests/fixtures/noqa/other.py"],
        added_tests=added,
    )
    assert names(recipe) == {"pip", "pytest", "respx", "setuptools", "trustme", "wheel"}


def test_tests_of_a_package_inside_the_repository_bring_that_package_along() -> None:
    """A plugin with packaging files of its own is not there when only the root is installed."""
    files = {
        "setup.py": "from setuptools import setup\nsetup(name='core')\n",
        "plugins/one/setup.py": "from setuptools import setup\nsetup(name='core-one', install_requires=['six'])\n",
        "plugins/two/setup.py": "from setuptools import setup\nsetup(name='core-two')\n",
        "tests/data/pkg/setup.py": "from setuptools import setup\nsetup(name='sample')\n",
    }
    tests = ["plugins/one/tests/test_one.py", "tests/data/pkg/test_x.py", "tests/test_core.py"]
    found = discover(MemoryFiles(files), commit_date=DATE, minors=MINORS, test_paths=tests)
    assert (found[0].subdir, found[0].beside) == ("", ("plugins/one",))
    assert found[-1].beside == ()
    assert first(files, test_paths=["tests/test_core.py"]).beside == ()
    assert recipe_from_toml(recipe_to_toml(found[0])).beside == ("plugins/one",)


def test_sources_beside_the_tests_need_what_the_project_declares() -> None:
    files = {"setup.py": "", "lib/config.py": "import yaml\n", "lib/config_test.py": "import trustme\n"}
    recipe = first(files, test_paths=["lib/config_test.py"])
    assert "trustme" in names(recipe)
    assert "PyYAML" not in names(recipe)


def test_a_project_with_no_packaging_files_goes_on_the_path() -> None:
    recipe = first({"pkg/__init__.py": "", "requirements.txt": "attrs\n", "test_pkg.py": "import pkg\n"})
    assert (recipe.install, recipe.project) == ("path", "")
    assert "attrs" in names(recipe)


def test_the_packaging_files_next_to_the_tests_count_where_the_root_has_none() -> None:
    recipe = first(
        {
            "a/pyproject.toml": "[project]\nname='a'\n",
            "b/pyproject.toml": "[project]\nname='b'\n",
            "b/tests/test_b.py": "",
        },
        test_paths=["b/tests/test_b.py"],
    )
    assert (recipe.project, recipe.subdir) == ("b", "b")


def test_pytest_is_new_enough_for_the_interpreter_whatever_the_project_pins() -> None:
    """checkov of 2024 pins pytest 5.3.1 in an extra that nobody uses: on Python 3.11 it can't compile a single test."""
    recipe = first({"setup.py": "", "requirements-test.txt": "pytest<8\n"})
    assert recipe.python == "3.11"
    assert {"pytest<8", "pytest>=7.0"} <= set(recipe.requirements)
    old = discover(MemoryFiles({"setup.py": ""}), commit_date=DATE, minors=[(3, 9)])[0]
    assert "pytest>=3.6" in old.requirements  # what the probe needs: requests of 2013 pins 2.3.4


def test_pytest_itself_is_not_asked_of_the_registry() -> None:
    assert "pytest" not in names(first({"setup.cfg": "[metadata]\nname = pytest\n"}))


def test_a_private_index_and_a_local_path_are_left_out_and_named() -> None:
    recipe = first({"setup.py": "", "requirements-test.txt": "--index-url https://private.example\n./libs/x\nattrs\n"})
    assert "attrs" in names(recipe)
    assert (
        sum("requirements-test.txt: an index" in line or "no project in ./libs/x" in line for line in recipe.reasons)
        == 2
    )


def test_pipfile_and_conda_files() -> None:
    assert {"mock", "attrs"} <= names(
        first({"setup.py": "", "Pipfile": "[packages]\nattrs='*'\n[dev-packages]\nmock='==1'\n"})
    )
    conda = "name: x\ndependencies:\n  - python=3.9\n  - numpy=1.20\n  - pip\n  - pip:\n    - trustme\n"
    assert {"numpy", "trustme"} <= names(first({"setup.py": "", "environment.yml": conda}))
    assert "python" not in names(first({"setup.py": "", "environment.yml": conda}))


def test_candidates_are_ranked_from_full_to_minimal_and_differ() -> None:
    files = {
        "setup.cfg": "[metadata]\nname=x\n[options.extras_require]\ntest=mock\ndev=six\nredis=redis\n",
        "requirements-test.txt": "attrs==1\n",
    }
    found = discover(MemoryFiles(files), commit_date=DATE, minors=MINORS)
    assert [recipe.name for recipe in found if recipe.python == found[0].python] == [
        "full",
        "tests",
        "loose",
        "minimal",
        "everything",
    ]
    assert found[0].extras == ("test", "dev")
    assert "attrs" in found[2].requirements
    assert [recipe.python for recipe in found if recipe.name == "full"] == ["3.11", "3.10", "3.9"]


def test_a_meson_project_may_also_be_built_in_place() -> None:
    text = "[build-system]\nrequires=['meson-python']\nbuild-backend='mesonpy'\n[project]\nname='x'\n"
    found = discover(MemoryFiles({"pyproject.toml": text, "setup.py": ""}), commit_date=DATE, minors=MINORS)
    assert [(recipe.name, recipe.install) for recipe in found[:2]] == [("full", "editable"), ("in place", "develop")]
    assert {"setuptools", "wheel"} <= set(found[1].build_requires)


def test_no_interpreter_no_recipe() -> None:
    assert (
        discover(
            MemoryFiles({"pyproject.toml": "[project]\nname='x'\nrequires-python='<3'\n"}),
            commit_date=DATE,
            minors=MINORS,
        )
        == []
    )


def test_a_recipe_survives_its_file() -> None:
    recipe = Recipe(
        name="full", python="3.9", cutoff="2024-01-01T00:00:00Z", project='we"ird', extras=("a", "b"), requirements=("x<2",),
        exceptions={"atomicwrites": "2022-07-10T00:00:00Z"}, env={"A": "b\\c"}, needs_git=True, reasons=("because\nof it",),
    )  # fmt: skip
    assert recipe_from_toml(recipe_to_toml(recipe)) == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("python = 3", "python is not str"),
        ("pyhton = '3.9'", "unknown key 'pyhton'"),
        ("= 1", "r.toml"),
        ("python = 'two'", "not a version"),
    ],
)
def test_a_broken_recipe_file_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        recipe_from_toml(text, where="r.toml")


def test_folder_files_never_leave_the_folder(tmp_path: object) -> None:
    from pathlib import Path

    root = Path(str(tmp_path)) / "tree"
    (root / "sub").mkdir(parents=True)
    (root.parent / "secret").write_text("no")
    (root / "link").symlink_to("../secret")
    (root / "sub" / "a.txt").write_text("a")
    files = FolderFiles(root)
    assert list(files.paths) == ["link", "sub/a.txt"]
    assert (files.read("link"), files.read("../secret"), files.read("sub/a.txt"), files.read("gone")) == (
        None,
        None,
        "a",
        None,
    )


def test_dynamic_extras_of_pyproject_are_known_by_name() -> None:
    declared = read_declared(
        MemoryFiles(
            {
                "pyproject.toml": "[project]\nname='x'\ndynamic=['optional-dependencies']\n"
                "[tool.setuptools.dynamic.optional-dependencies.test]\nfile=['t.txt']\n"
            }
        )
    )
    assert declared.extras == {"test": None}
