"""What failed builds and failed controls teach."""

# ruff: noqa: E501  the lines of other people's files are as long as they are
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from swelive_plugin.environments import Environment, Trial
from swelive_plugin.environments.build import (
    build_error,
    environment_key,
    first_cause,
)
from swelive_plugin.environments.interpreters import Interpreter, find_interpreters, no_interpreter
from swelive_plugin.environments.lock import lock_text, locked_versions, split_lock
from swelive_plugin.environments.repair import repaired
from swelive_plugin.environments.search import Found, cause_of, lesson, search
from swelive_plugin.errors import EnvironmentBuildError
from swelive_plugin.recipes.recipe import Recipe
from swelive_plugin.recipes.requirements import from_line
from swelive_plugin.sandbox import Completed

RECIPE = Recipe(
    project="mylib",
    cutoff="2020-01-01T00:00:00Z",
    requirements=("pytest", "attrs==19.1"),
    build_requires=("setuptools",),
)


def test_a_module_that_setup_py_imports_is_added_to_what_builds() -> None:
    better = repaired(RECIPE, "  File setup.py, line 3\nModuleNotFoundError: No module named 'numpy'")
    assert better is not None
    assert better.build_requires == ("setuptools", "numpy")
    assert repaired(better, "ModuleNotFoundError: No module named 'numpy'") is None


def test_a_package_that_the_date_hides_gets_a_later_one_step_by_step_with_an_end() -> None:
    log = "hint: `atomicwrites` was filtered by `exclude-newer` to only include packages uploaded before"
    dates: list[str] = []
    recipe: Recipe | None = RECIPE
    while recipe is not None and len(dates) < 10:
        recipe = repaired(recipe, log)
        dates.append(recipe.exceptions["atomicwrites"] if recipe else "")
    assert dates == ["2021-02-04T00:00:00Z", "2022-03-11T00:00:00Z", "2023-04-15T00:00:00Z", ""]


def test_a_name_that_was_taken_from_an_address_is_not_looked_for_in_later_uploads() -> None:
    """A language model's package, installed by address, was uploaded under its name by somebody else years later."""
    wanted = from_line("https://host.example/releases/en_core-1.0-py3-none-any.whl")
    recipe = replace(RECIPE, requirements=("pytest", *wanted.requirements), reasons=tuple(wanted.dropped))
    better = repaired(
        recipe, "hint: `en-core` was filtered by `exclude-newer` to only include packages uploaded before"
    )
    assert better is not None
    assert (better.requirements, better.exceptions) == (("pytest",), {})


def test_what_the_registry_never_heard_of_is_left_out() -> None:
    better = repaired(
        RECIPE, "Because attrs was not found in the package\n      registry and you require attrs, we can conclude"
    )
    assert better is not None
    assert better.requirements == ("pytest",)


def test_what_does_not_build_is_left_out_with_what_spoke_for_it() -> None:
    recipe = replace(
        RECIPE,
        requirements=("package", "lxml"),
        reasons=("package: tests/test_a.py (added) imports package", "requirement file requirements.txt"),
    )
    better = repaired(recipe, "Failed to build `package==0.1.1`\n  SyntaxError: Missing parentheses")
    assert better is not None
    assert better.requirements == ("lxml",)
    assert better.reasons[-1].startswith("no more than a name speaks for it")
    better = repaired(recipe, "Failed to build `lxml==4.9.1`")
    assert better is not None
    assert better.requirements == ("package",)
    assert better.reasons[-1] == "does not build here, left out: lxml"
    assert repaired(recipe, "Failed to build `mylib @ file:///testbed`") is None
    address = ("en-model @ https://example.org/en-model.whl: an address; the registry's en-model instead",)
    better = repaired(
        replace(RECIPE, requirements=("en-model", "lxml"), reasons=address), "Failed to build `en-model==999.9.9`"
    )
    assert better is not None
    assert better.requirements == ("lxml",)


def test_pins_that_conflict_are_taken_off() -> None:
    log = "error: No solution found\n  cause: Because mylib depends on attrs>=19.3 and you require attrs==19.1, we can conclude"
    better = repaired(RECIPE, log)
    assert better is not None
    assert better.requirements == ("pytest", "attrs")
    assert repaired(better, log) is None


def test_an_extra_of_the_project_that_pins_what_never_fitted_is_overridden() -> None:
    recipe = replace(RECIPE, extras=("dev",), requirements=("pytest>=7.0", "six"))
    log = (
        "  No solution found when resolving dependencies:\n  Because only mylib[dev]==3.2 is available and mylib[dev]==3.2\n"
        "      depends on pytest==5.3.1, we can conclude that all versions of mylib[dev] depend on pytest==5.3.1.\n"
        "      And because you require mylib[dev] and pytest>=7.0, your requirements are unsatisfiable."
    )
    better = repaired(recipe, log)
    assert better is not None
    assert better.overrides == ("pytest>=7.0",)
    assert better.requirements == recipe.requirements
    again = repaired(better, log)
    assert again is None or again.overrides == better.overrides


def test_a_package_whose_files_of_that_day_have_old_names_gets_a_later_one() -> None:
    log = (
        "No solution found when resolving dependencies:\n  Because all versions of twisted have a non-PEP 625-compliant\n"
        "  source distribution filename and you require twisted, your requirements are unsatisfiable."
    )
    better = repaired(replace(RECIPE, requirements=("twisted",)), log)
    assert better is not None
    assert better.exceptions == {"twisted": "2021-02-04T00:00:00Z"}


def test_a_package_of_another_system_is_left_out() -> None:
    recipe = replace(RECIPE, requirements=("pytest", "pywin32"))
    log = (
        "error: No solution found when resolving dependencies\n  cause: Because pywin32>=302 has no wheels with a matching\n"
        "    platform tag (e.g., `manylinux_2_36_x86_64`) and you require pywin32, your requirements are unsatisfiable."
    )
    better = repaired(recipe, log)
    assert better is not None
    assert better.requirements == ("pytest",)


def test_a_version_that_no_standard_knows_asks_for_a_later_setuptools_with_an_end() -> None:
    log = (
        "error: Failed to build `mylib @ file:///testbed`\n  cause: Failed to parse metadata from built wheel\n"
        "  cause: Invalid version: after parsing `3.0.1.dev20261130`, found `.dev-20261130`"
    )
    dates: list[str] = []
    recipe = repaired(RECIPE, log)
    while recipe is not None and len(dates) < 9:
        dates.append(recipe.exceptions["setuptools"][:10])
        recipe = repaired(recipe, log)
    assert dates == ["2021-02-04", "2022-03-11", "2023-04-15"]


def test_an_unknown_failure_teaches_nothing() -> None:
    assert repaired(RECIPE, "Segmentation fault") is None


@pytest.mark.parametrize(
    ("output", "added"),
    [
        ("E   ModuleNotFoundError: No module named 'yaml'", "PyYAML"),
        ("ImportError: No module named trustme", "trustme"),
        ("E       fixture 'mocker' not found", "pytest-mock"),
        ("pytest: error: unrecognized arguments: --cov-report=xml --cov=x", "pytest-cov"),
        ("ERROR: 'benchmark' not found in `markers` configuration option", "pytest-benchmark"),
        ("ERROR: Missing required plugins: pytest-httpbin", "pytest-httpbin"),
        ("async def functions are not natively supported.", "pytest-asyncio"),
        ('ImportError: Error importing plugin "pytest_cases"', "pytest-cases"),
    ],
)
def test_what_the_tests_miss_is_added(output: str, added: str) -> None:
    better = lesson(RECIPE, output, {"pytest": "7.0"})
    assert better is not None
    assert added in better.requirements
    assert better.name == "full+"


def test_what_is_there_already_or_is_the_project_is_not_added_again() -> None:
    output = "No module named 'yaml'\nNo module named 'mylib.gone'\nNo module named 'os.gone'"
    better = lesson(RECIPE, output, {"pyyaml": "6"})
    assert better is not None
    assert better.requirements == RECIPE.requirements


def test_tests_that_look_at_git_get_one() -> None:
    better = lesson(RECIPE, "fatal: not a git repository (or any of the parent directories)", {})
    assert better is not None
    assert better.needs_git


def test_a_plugin_in_which_the_session_ends_is_left_out() -> None:
    recipe = replace(RECIPE, requirements=("pytest", "pytest-asyncio", "pytest-bdd"))
    output = (
        'INTERNALERROR>   File "/v/lib/python3.9/site-packages/pytest_asyncio/plugin.py", line 191, in pytest_configure\n'
        '  File "/v/lib/python3.9/site-packages/pytest_bdd/plugin.py", line 60, in pytest_unconfigure\n'
    )
    better = lesson(recipe, output, {"pytest-asyncio": "0.19.0", "pytest-bdd": "6"})
    assert better is not None
    assert better.requirements == ("pytest", "pytest-bdd")
    assert better.reasons[-1] == "plugins that break the session are left out: pytest-asyncio"


@pytest.mark.parametrize(
    "output",
    [
        "RuntimeError: The data files are not available. You are using a source checkout",
        "E   FileNotFoundError: [Errno 2] No such file or directory: '/testbed/mylib/table.dat'",
        "E   ModuleNotFoundError: No module named 'mylib._parser'",
        "E   ImportError: cannot import name '_version' from 'mylib' (/testbed/mylib/__init__.py)",
    ],
)
def test_generated_files_that_are_missing_are_looked_for_in_the_last_release(output: str) -> None:
    better = lesson(RECIPE, output, {})
    assert better is not None
    assert better.released_files
    assert lesson(better, output, {}) is None


def test_a_name_that_a_package_dropped_asks_for_an_older_one() -> None:
    output = "ImportError: cannot import name 'soft_unicode' from 'markupsafe' (/opt/swelive/venv/lib/python3.9/site-packages/markupsafe/__init__.py)"
    better = lesson(RECIPE, output, {"markupsafe": "2.1.1"})
    assert better is not None
    assert better.constraints == ("markupsafe<2.1.1",)


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (
            "E  FileNotFoundError: [Errno 2] No such file or directory: 'dot'",
            "a program is missing: dot (apt-get install dot)",
        ),
        ("OSError: cannot load library 'libpango-1.0-0'", "a system library is missing: libpango-1.0-0"),
        ("ConnectionError: [Errno -3] Temporary failure in name resolution", "the tests need the wide network"),
        ("locale.Error: unsupported locale setting", "a locale is missing (apt-get install locales-all)"),
        ("E       AssertionError: 1 != 2", "AssertionError: 1 != 2"),
        ("all fine", ""),
    ],
)
def test_causes_in_words(output: str, cause: str) -> None:
    assert cause_of(output) == cause


def environment(recipe: Recipe) -> Environment:
    key = repr((recipe.python, recipe.requirements, recipe.extras))
    return Environment(
        key, Path("/e"), "python", (3, 11, 7), (), Path("/e/tree"), (), recipe=recipe, lock_text="pytest==7.0 \\\n"
    )


def run_search(candidates: list[Recipe], check: dict[str, Trial], tries: int = 8) -> tuple[Found, list[Recipe]]:
    built: list[Recipe] = []

    def build(recipe: Recipe) -> Environment:
        built.append(recipe)
        if recipe.name == "broken":
            raise EnvironmentBuildError("it does not build")
        return environment(recipe)

    return search(candidates, build=build, check=lambda made: check[made.recipe.name], tries=tries), built


def test_the_search_stops_where_the_controls_hold() -> None:
    found, built = run_search(
        [Recipe(name="broken"), Recipe(name="a", python="3.9"), Recipe(name="b", python="3.8")], {"a": Trial(True, 3)}
    )
    assert (found.holds, [recipe.name for recipe in built]) == (True, ["broken", "a"])
    assert [attempt.outcome for attempt in found.attempts] == ["not built", "holds"]


def test_the_search_says_why_it_goes_on() -> None:
    said: list[str] = []
    trials = {"a": Trial(False, 1, note="fail with gold: t"), "b": Trial(True, 1)}
    recipes = [Recipe(name="a", python="3.9"), Recipe(name="b", python="3.8")]
    search(recipes, build=environment, check=lambda made: trials[made.recipe.name], progress=said.append)
    assert said[1] == "its controls do not hold: fail with gold: t"


def test_a_lesson_is_tried_before_the_next_candidate() -> None:
    check = {"a": Trial(False, 1, "No module named 'yaml'"), "a+": Trial(True, 2)}
    found, built = run_search([Recipe(name="a"), Recipe(name="b", python="3.8")], check)
    assert [recipe.name for recipe in built] == ["a", "a+"]
    assert found.holds
    assert built[1].requirements == ("PyYAML",)


def test_the_best_is_kept_and_the_search_is_bounded() -> None:
    candidates = [Recipe(name=str(number), python=f"3.{number}") for number in range(6, 14)]
    check = {str(number): Trial(False, 10 - abs(number - 8), "E   ValueError: no") for number in range(6, 14)}
    found, built = run_search(candidates, check, tries=4)
    assert len(built) == 4
    assert (found.holds, found.cause) == (False, "ValueError: no")
    assert found.environment is not None
    assert found.environment.recipe.name == "8"


def test_code_that_is_too_old_for_the_interpreter_goes_to_an_older_one_first() -> None:
    check = {
        "a": Trial(False, 0, "ImportError: cannot import name 'Mapping' from 'collections'"),
        "old": Trial(True, 1),
        "new": Trial(True, 1),
    }
    found, built = run_search(
        [Recipe(name="a", python="3.10"), Recipe(name="new", python="3.11"), Recipe(name="old", python="3.9")], check
    )
    assert [recipe.name for recipe in built] == ["a", "old"]
    assert found.holds


def test_a_test_that_an_old_interpreter_skips_asks_for_a_newer_one_first() -> None:
    check = {
        "a": Trial(False, 0, "1 skipped\nskipped tests/test_a.py::test_posonly: python-3.8 or above is required"),
        "same": Trial(True, 1),
        "newer": Trial(True, 1),
    }
    found, built = run_search(
        [Recipe(name="a", python="3.7"), Recipe(name="same", python="3.7"), Recipe(name="newer", python="3.8")], check
    )
    assert [recipe.name for recipe in built] == ["a", "newer"]
    assert found.holds


def test_a_bug_that_does_not_show_on_an_old_interpreter_is_looked_for_on_a_newer_one_first() -> None:
    check = {
        "a": Trial(False, 0, "", "pass at base: t", pass_at_base=True),
        "old": Trial(True, 1),
        "new": Trial(True, 1),
    }
    candidates = [("a", "3.7"), ("same", "3.7"), ("old", "3.6"), ("new", "3.8")]
    found, built = run_search([Recipe(name=name, python=python) for name, python in candidates], check)
    assert [recipe.name for recipe in built] == ["a", "new"]
    assert found.holds


def test_one_environment_is_not_judged_twice() -> None:
    check = {"a": Trial(False, 1), "b": Trial(True, 1)}
    found, _ = run_search([Recipe(name="a", constraints=("x",)), Recipe(name="b")], check)
    assert [attempt.outcome for attempt in found.attempts] == ["does not hold"]


def test_a_build_that_hangs_is_not_tried_with_seven_more_recipes() -> None:
    built: list[str] = []

    def build(recipe: Recipe) -> Environment:
        built.append(recipe.name)
        raise build_error("resolving", Completed(-9, "wall_clock", 1800.0), "Password: ")

    found = search([Recipe(name="a"), Recipe(name="b", python="3.9")], build=build, check=lambda _: Trial(True))
    assert built == ["a"]
    assert found.cause.startswith("resolving failed (stopped after 1800 s: it hangs")


def test_nothing_built_tells_the_first_reason() -> None:
    found, _ = run_search([Recipe(name="broken")], {})
    assert (found.environment, found.cause) == (None, "it does not build")


def test_a_lock_holds_its_files_and_says_what_is_in_it() -> None:
    text = lock_text(
        RECIPE,
        "attrs==19.1 \\\n    --hash=sha256:a\ntyping.ext[x]==1 ; python_version < '3'\n",
        "setuptools==40 \\\n    --hash=sha256:b\n",
    )
    packages, build, release, checkout = split_lock(text)
    assert (release, checkout) == ("", ())
    with_release = lock_text(RECIPE, "attrs==19.1\n", "setuptools==40\n", "mylib==2 --hash=sha256:c\n")
    assert split_lock(with_release)[1:] == ("\nsetuptools==40\n", "\nmylib==2 --hash=sha256:c\n", ())
    with_checkout = lock_text(RECIPE, "attrs==19.1\n", "", checkout=["libs/core", "vendor/x.whl"])
    assert split_lock(with_checkout)[2:] == ("", ("libs/core", "vendor/x.whl"))
    assert "attrs==19.1" in packages
    assert "setuptools" not in packages
    assert build.strip().startswith("setuptools==40")
    assert locked_versions(text) == {"attrs": "19.1", "typing-ext": "1"}


def test_the_key_changes_with_all_that_an_environment_depends_on_and_with_nothing_else() -> None:
    interpreter = Interpreter(Path("/p/bin/python3.11"), (3, 11, 7), Path("/p"))

    def key(
        recipe: Recipe = RECIPE,
        lock: str = "lock",
        one: Interpreter = interpreter,
        tree: str = "t",
        layout: str = "fixed",
    ) -> str:
        return environment_key(recipe, lock, one, tree, layout, Path("/store"))

    other = Interpreter(Path("/p/bin/python3.11"), (3, 11, 8), Path("/p"))
    keys = [
        key(),
        key(lock="other"),
        key(one=other),
        key(tree="u"),
        key(layout="host"),
        key(replace(RECIPE, env={"A": "1"})),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == key(replace(RECIPE, name="loose", reasons=("other",)))


@pytest.mark.parametrize(
    ("ended_by", "text", "said", "hint"),
    [
        (
            "exit",
            "building\n_speed.c:1:10: fatal error: libxml/xmlversion.h: No such file or directory\n",
            "libxml/xmlversion.h",
            "apt-file search libxml/xmlversion.h",
        ),
        ("exit", "ERROR: Program 'bison win_bison' not found or not executable", "bison", "apt-get install bison"),
        ("exit", "error: [Errno 28] No space left on device", "No space left", "gc --max-size"),
        ("wall_clock", "Password: ", "it hangs, or waits for input", ""),
        ("exit", "error: Hash mismatch for `attrs`", "Hash mismatch", "env build --redo"),
    ],
)
def test_a_failed_build_says_how_it_ended_and_what_to_do(ended_by: str, text: str, said: str, hint: str) -> None:
    error = build_error("installing the project", Completed(1, ended_by, 5.0), text)  # type: ignore[arg-type]
    assert said in error.message
    assert hint in error.hint
    assert error.evidence.strip() == text.strip()


def test_a_silent_failure_is_told_as_such() -> None:
    assert first_cause("\n \n") == "it printed nothing"


def test_interpreters_that_do_not_answer_are_skipped(tmp_path: Path) -> None:
    """pyenv puts a shim on PATH for every version that any interpreter has, and most of them do not answer."""
    for name, body in {
        "python3.9": "exit 127",
        "python3": "echo no json",
        "python3.10": "sleep 0; exit 0",
        "python3-config": "echo {}",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    assert find_interpreters({"PATH": str(tmp_path), "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path / "none")}) == ()


def test_interpreters_are_found_on_path_and_in_pyenvs_folders(tmp_path: Path) -> None:
    import sys

    real = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}"
    if not real.exists():
        pytest.skip(f"{real} is not there")
    folder = tmp_path / "versions" / "x" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(real)
    found = find_interpreters({"PATH": "", "PYENV_ROOT": str(tmp_path), "HOME": str(tmp_path)})
    assert [interpreter.version for interpreter in found] == [sys.version_info[:3]]


def test_no_interpreter_says_which_are_here_and_how_to_get_the_wanted_one() -> None:
    here = (Interpreter(Path("/a"), (3, 12, 1), Path("/")), Interpreter(Path("/b"), (3, 9, 2), Path("/")))
    error = no_interpreter(">=3.13", here, instance_id="o__n-1")
    assert str(error).startswith(
        "o__n-1: no interpreter here fits Python >=3.13; here are: 3.9.2, 3.12.1 (uv python install 3.13"
    )
