"""The documentation says what the code does: options, settings, links, examples and commands."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import swelive_plugin
from swelive_plugin import Settings, plugin
from swelive_plugin._links import DOCS_URL, REPOSITORY_URL
from swelive_plugin.cli.main import PAGES, cli
from swelive_plugin.extensions import policies

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
SITE = sorted((ROOT / "docs").rglob("*.md"))
PAGES_OF_ALL = [*sorted(ROOT.glob("*.md")), *SITE]
SETTINGS_PAGE = ROOT / "docs" / "reference" / "settings.md"

# options in our docs that belong to pytest, its plugins, pip, uv or git
FOREIGN = {"--reruns", "--maxfail", "--deselect", "--report-log", "--json-report", "--junitxml", "--tb"}
FOREIGN |= {"--group", "--no-deps", "--exclude-newer", "--require-hashes", "--inplace"}


def by_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cli_reference = load(ROOT / "docs" / "_ext" / "cli_reference.py")


def options_of(command: click.Context) -> list[click.Option]:
    return [each for each in command.command.params if isinstance(each, click.Option)]


ALL_COMMANDS: dict[str, click.Context] = {each.command_path: each for each in cli_reference.commands()}
SWELIVE_OPTIONS = {name for each in ALL_COMMANDS.values() for option in options_of(each) for name in option.opts} | {
    "--help",
    "-h",
    "--version",
    *map(plugin.option_of, plugin._OPTIONS),
}


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    text: str

    def commands(self) -> Iterator[str]:
        """Yield the command lines of a console block, continuation lines joined, without comments."""
        prompt = "$ " if re.search(r"^\$ ", self.text, re.MULTILINE) else ""
        for line in self.text.replace("\\\n", " ").split("\n"):
            if line.startswith(prompt) and line.strip():
                yield re.sub(r"\s{2,}#.*$", "", line.removeprefix(prompt)).strip()


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(\S*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(page, language, text) for language, text in found]


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def shown_commands(program: str) -> list[tuple[str, str]]:
    """Return (page, command line) of every console block line that calls a program, in pipes and lists too."""
    found = []
    for page in PAGES_OF_ALL:
        for block in blocks(page):
            if block.language not in ("console", "bash", "yaml"):
                continue
            for line in block.commands():
                parts = [part.removeprefix(".venv/bin/") for part in re.split(r" (?:&&|\||;) |^- run: ", line)]
                found += [(by_name(page), part) for part in parts if part.startswith(program + " ")]
    return found


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def rows(page: Path, head: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins with ``head``."""
    lines = page.read_text("utf-8").split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(head))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append(cells(line))
    return found


# settings


def test_settings_page_lists_every_field_with_its_option_variable_and_default() -> None:
    grade = ALL_COMMANDS["swelive grade"]
    options = {option.name: option for option in options_of(grade)}
    fields = {field.name: field for field in dataclasses.fields(Settings)}
    listed = {row[1].strip("`"): row for row in rows(SETTINGS_PAGE, "| option | `Settings` field")}
    assert list(listed) == list(fields)
    for name, (option, _, variable, default, _) in listed.items():
        assert option.strip("`") in options[name].opts
        assert variable.strip("`") == cli_reference.variable(options[name], grade)
        value = options[name].default
        if name in ("scope", "repo_url", "cache", "recipes"):
            assert fields[name].default in (None, dataclasses.MISSING)
        elif options[name].is_flag:
            assert (fields[name].default, default) == (False, "off")
        else:
            assert default.strip("`") == str(value).removesuffix(".0")
            assert value == fields[name].default


def test_settings_page_lists_every_option_of_the_pytest_plugin() -> None:
    listed = rows(SETTINGS_PAGE, "| option | ini key")
    assert [row[:3] for row in listed] == [
        [f"`{plugin.option_of(name)}`", f"`swelive_{name}`", f"`SWELIVE_{name.upper()}`"] for name in plugin._OPTIONS
    ]


def test_settings_page_lists_every_policy() -> None:
    assert {row[0].strip("`") for row in rows(SETTINGS_PAGE, "| name | reproduces")} == set(policies())


def test_settings_page_names_every_variable_of_the_source() -> None:
    page = SETTINGS_PAGE.read_text("utf-8")
    ours = {"SWELIVE_UV", "SWELIVE_RUN"}  # handed to processes of ours, not read from a person's environment
    sources = [*(ROOT / "src").rglob("*.py"), ROOT / "conftest.py"]
    found = {
        name for path in sources for name in re.findall(r"\bSWELIVE_[A-Z]+[A-Z_]*[A-Z]\b", path.read_text("utf-8"))
    }
    assert {name for name in found - ours if name not in page} == set()


# options and commands


def test_every_command_of_the_docs_is_understood_by_the_command_line() -> None:
    wrong = []
    for page, line in shown_commands("swelive"):
        words = [word.replace("…", "x") for word in shlex.split(line)[1:]]
        try:
            parse(cli, words)
        except click.UsageError as error:
            if "does not exist" not in error.message:
                wrong.append(f"{page}: {line}: {error.message}")
    assert wrong == []
    assert len(shown_commands("swelive")) > 20


def test_every_example_in_a_help_text_is_understood_by_the_command_line() -> None:
    wrong = []
    examples = 0
    for path, context in ALL_COMMANDS.items():
        for paragraph in (context.command.help or "").split("\n\n"):
            if not paragraph.lstrip(" ").startswith("\b"):
                continue
            lines = re.sub(r"\\\n\s*", " ", paragraph).split("\n")[1:]
            for line in (re.sub(r"\s{3,}.*$", "", each.strip()) for each in lines):
                examples += 1
                try:
                    parse(cli, shlex.split(line)[1:])
                except click.UsageError as error:
                    if "does not exist" not in error.message:
                        wrong.append(f"{path}: {line}: {error.message}")
    assert wrong == []
    assert examples > 10


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    if isinstance(command, click.Group):
        context = click.Context(command, parent, info_name=command.name)
        if words and not words[0].startswith("-"):
            found = command.get_command(context, words[0])
            if found is None:
                raise click.UsageError(f"no command {words[0]}")
            parse(found, words[1:], context)
        return
    if not {"--help", "-h"} & set(words):
        command.make_context(command.name, words, parent)


@pytest.mark.parametrize("page", PAGES_OF_ALL, ids=by_name)
def test_every_option_that_a_page_names_exists(page: Path) -> None:
    named = {
        option
        for span in re.findall(r"`([^`\n]+)`", prose(page))
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+\b", span)
    }
    unknown = {
        option
        for option in named - SWELIVE_OPTIONS - FOREIGN
        if not any(module in prose(page) and option in text for module, text in benchmark_sources().items())
    }
    assert unknown == set()


def benchmark_sources() -> dict[str, str]:
    return {path.stem: path.read_text("utf-8") for path in (ROOT / "benchmarks").glob("*.py")}


def test_every_benchmark_command_of_the_docs_names_a_module_and_its_options() -> None:
    wrong = []
    for page in PAGES_OF_ALL:
        text = page.read_text("utf-8")
        for module, arguments in re.findall(r"python (?:-m benchmarks\.|benchmarks/)(\w+)(?:\.py)?([^`\n]*)", text):
            source = benchmark_sources().get(module, "")
            if not source or any(f'"{option}"' not in source for option in re.findall(r" (--?[a-z-]+)", arguments)):
                wrong.append(f"{by_name(page)}: {module}{arguments}")
    assert wrong == []


def test_command_reference_has_every_command_and_option() -> None:
    text = "\n".join(cli_reference.reference())
    for path, context in ALL_COMMANDS.items():
        section = re.split(rf"^## {path}$", text, flags=re.MULTILINE)[1].split("\n## ")[0]
        for option in options_of(context):
            assert f"`{option.opts[-1]}`" in section, f"{path} {option.opts[-1]}"


def test_variables_of_the_command_reference_are_those_that_click_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page said SWELIVE_GRADE_TIMEOUT, but click names variables after parameters: SWELIVE_GRADE_TIMEOUT_S."""
    grade = ALL_COMMANDS["swelive grade"]
    timeout = next(option for option in options_of(grade) if "--timeout" in option.opts)
    monkeypatch.setenv(cli_reference.variable(timeout, grade), "61")
    assert timeout.resolve_envvar_value(grade) == "61"


# links


@pytest.mark.parametrize("page", PAGES_OF_ALL, ids=by_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES_OF_ALL, ids=by_name)
def test_every_file_of_ours_that_a_page_names_exists(page: Path) -> None:
    """Pages named modules that had been renamed: environments/recipe.py, core/compiled.py."""
    package = ROOT / "src" / "swelive_plugin"
    folders = "|".join(
        ["src", "tests", "benchmarks", "examples", *(each.name for each in package.iterdir() if each.is_dir())]
    )
    named = set(re.findall(rf"`((?:{folders})/[\w/.]*)`", prose(page)))
    assert {name for name in named if not (ROOT / name).exists() and not (package / name).exists()} == set()


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = re.findall(r"^[a-z-]+/[a-z-]+$", (ROOT / "docs" / "index.md").read_text("utf-8"), re.MULTILINE)
    pages = [page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in SITE]
    assert sorted([*listed, "index"]) == sorted(pages)


def test_addresses_are_those_of_the_package_metadata() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    assert (urls["Documentation"], urls["Repository"]) == (DOCS_URL, REPOSITORY_URL)
    for page in PAGES_OF_ALL:
        for url in re.findall(r"https://[\w.-]*pytest-swelive[^\s)>\"'`]*", page.read_text("utf-8")):
            assert url.startswith((DOCS_URL.rstrip("/"), REPOSITORY_URL)), f"{by_name(page)}: {url}"


def test_help_of_every_command_names_a_page_that_exists() -> None:
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        page = PAGES.get(name, "reference/cli")
        assert (ROOT / "docs" / f"{page}.md").is_file()
        assert command.epilog == f"Docs: {DOCS_URL}{page}.html"


# examples


@pytest.mark.parametrize("page", PAGES_OF_ALL, ids=by_name)
def test_python_examples_compile_and_import_names_that_exist(page: Path) -> None:
    for block in blocks(page):
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("swelive_plugin"):
                module = importlib.import_module(node.module or "")
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert missing == [], f"{by_name(page)}: {node.module}"


def test_api_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    named = set(re.findall(r"auto(?:class|function|exception):: (?:swelive_plugin\.)?(\w+)$", page, re.MULTILINE))
    assert set(swelive_plugin.__all__) - {"__version__"} <= named


def test_example_plugins_of_the_docs_work(tmp_path: Path) -> None:
    examples = [block.text for block in blocks(ROOT / "docs" / "how-to" / "extend.md") if block.language == "python"]
    policy, reader, executor = (dict[str, Any]() for _ in range(3))
    for text, names in zip(examples, (policy, reader, executor), strict=True):
        exec(compile(text, "extend.md", "exec"), names)
    (strict,) = call(policy, "swelive_policies")
    assert strict.name == "strict"
    assert strict.p2p_missing("tests/a.py::t", None).judgement == "fail"
    (tap,) = call(reader, "swelive_log_readers")
    record = tmp_path / "run.tap"
    record.write_text("TAP version 13\nok 1 - tests/a.py::t\nnot ok 2 - tests/a.py::u\n")
    assert tap.recognises(record.read_bytes())
    outcomes = {name: test.outcome.value for name, test in tap.read(record).tests.items()}
    assert outcomes == {"tests/a.py::t": "passed", "tests/a.py::u": "failed"}


def call(names: dict[str, Any], hook: str) -> list[Any]:
    found: list[Any] = names[hook]()
    return found


# words


@pytest.mark.parametrize("page", PAGES_OF_ALL, ids=by_name)
def test_no_sentence_ends_in_a_colon_before_nothing(page: Path) -> None:
    """The README said "with its reasons, test by test:" and nothing followed."""
    text = re.sub(r"^ *```.*?^ *```$", "```", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for before, after in re.findall(r"^(.*:)\n\n+(?=(.*))", text, re.MULTILINE):
        assert re.match(r" *(?:[-*|`>]|\d+\.|<!--)", after), f"{by_name(page)}: {before!r} is followed by {after!r}"


def test_github_workflows_ask_for_no_more_rights_than_they_need() -> None:
    import yaml

    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = yaml.safe_load(path.read_text("utf-8"))
        assert workflow["permissions"] == {"contents": "read"}, path.name
        for job in workflow["jobs"].values():
            assert set(job.get("permissions", {})) <= {"id-token", "pages"}
            uses = [step["uses"] for step in job.get("steps", ()) if "uses" in step]
            assert all(re.search(r"@(v\d+|release/v\d+)$", each) for each in uses), path.name


def test_continuous_integration_tests_every_python_that_the_package_supports() -> None:
    import yaml

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    supported = [each.rpartition(" ")[2] for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)]
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python-version"] == supported


def test_readme_holds_the_two_commands_that_continuous_integration_runs() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    first, second = re.findall(r"^\$ (.*)$", readme, re.MULTILINE)[:2]
    assert first.endswith(".venv/bin/swelive demo")
    assert second == ".venv/bin/python -m pytest"
    assert len(readme.splitlines()) <= 80


def test_json_examples_are_json() -> None:
    for page in PAGES_OF_ALL:
        for block in blocks(page):
            if block.language == "json":
                json.loads(block.text)
