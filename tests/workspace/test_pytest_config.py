"""pytest's own sections of shared files: exchanged, and not one other character."""

from __future__ import annotations

import pytest

from swelive_plugin.workspace.pytest_config import has_pytest_section, with_pytest_section

PYPROJECT = """\
[build-system]
requires = ["setuptools"]

[tool.pytest.ini_options]
testpaths = ["tests"]  # ours

[tool.black]
line-length = 99
"""
SETUP_CFG = """\
[metadata]
name = x

[tool:pytest]
addopts =
    -ra
    --strict
testpaths = tests

[options]
install_requires =
    a
    b
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", PYPROJECT),
        ("pyproject.toml", "tool.pytest.ini_options.addopts = '-x'\n"),
        ("pyproject.toml", "[tool]\npytest = {ini_options = {addopts = '-x'}}\n"),
        ("pyproject.toml", "[tool.pytest]\naddopts = ['-x']\n"),
        ("pyproject.toml", '["tool"."pytest".ini_options]\naddopts = "-x"\n'),
        ("pyproject.toml", "not toml ["),
        ("setup.cfg", SETUP_CFG),
        ("setup.cfg", "[tool:pytest]  ; a comment\naddopts = -x\n"),
        ("tox.ini", "[pytest]\naddopts = -x\n"),
        ("tox.ini", "[a]\nx = 1\n[a]\nx = 2\n"),
    ],
)
def test_what_configures_pytest_or_cannot_be_read(name: str, text: str) -> None:
    assert has_pytest_section(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", ""),
        ("pyproject.toml", "[tool.pytest-asyncio]\nx = 1\n[project]\nname = 'pytest'\n"),
        ("pyproject.toml", 'x = """\n[tool.pytest.ini_options]\n"""\n'),
        ("setup.cfg", "[metadata]\ndescription =\n    about [tool:pytest]\n"),
        ("tox.ini", "[testenv]\ncommands = pytest\n"),
    ],
)
def test_what_does_not(name: str, text: str) -> None:
    assert not has_pytest_section(name, text)


class TestExchange:
    def test_packaging_parts_stay_and_pytests_come_back(self) -> None:
        edited = PYPROJECT.replace('["setuptools"]', '["setuptools", "wheel"]').replace('["tests"]  # ours', '["evil"]')
        assert with_pytest_section("pyproject.toml", edited, PYPROJECT) == PYPROJECT.replace(
            '["setuptools"]', '["setuptools", "wheel"]'
        )

    def test_ini_packaging_parts_stay_and_pytests_come_back(self) -> None:
        edited = SETUP_CFG.replace("    b\n", "    b\n    c\n").replace("    -ra\n", "    -p evil\n")
        assert with_pytest_section("setup.cfg", edited, SETUP_CFG) == SETUP_CFG.replace("    b\n", "    b\n    c\n")

    def test_same_section_leaves_the_text_alone(self) -> None:
        edited = PYPROJECT.replace("99", "100").replace("  # ours", "")
        assert with_pytest_section("pyproject.toml", edited, PYPROJECT) == edited

    @pytest.mark.parametrize(
        ("name", "text", "header"),
        [("pyproject.toml", PYPROJECT, "[tool.pytest.ini_options]"), ("setup.cfg", SETUP_CFG, "[tool:pytest]")],
    )
    def test_new_section_goes_and_a_removed_one_comes_back(self, name: str, text: str, header: str) -> None:
        start = text.index(header)
        bare = text[:start] + text[text.index("[tool.black]" if name == "pyproject.toml" else "[options]") :]
        assert with_pytest_section(name, text, bare) == bare
        back = with_pytest_section(name, bare, text)
        assert back is not None
        assert has_pytest_section(name, back)
        assert with_pytest_section(name, back, bare) is not None

    def test_plugin_tables_below_pytests_go_along(self) -> None:
        edited = PYPROJECT + "\n[tool.pytest.other]\nx = 1\n"
        assert with_pytest_section("pyproject.toml", edited, PYPROJECT) == PYPROJECT + "\n"

    def test_file_without_final_newline(self) -> None:
        source = "[pytest]\naddopts = -ra"
        assert (
            with_pytest_section("tox.ini", "[testenv]\nx = 1", source)
            == "[testenv]\nx = 1\n\n[pytest]\naddopts = -ra\n"
        )

    def test_crlf_file_keeps_its_line_ends(self) -> None:
        edited = PYPROJECT.replace('["tests"]', '["evil"]').replace("\n", "\r\n")
        assert with_pytest_section("pyproject.toml", edited, PYPROJECT) == PYPROJECT.replace("\n", "\r\n")

    @pytest.mark.parametrize(
        "text",
        [
            "tool.pytest.ini_options.addopts = '-p evil'\n",
            "[tool]\npytest = {ini_options = {addopts = '-p evil'}}\n",
            PYPROJECT.replace('testpaths = ["tests"]', 'testpaths = ["evil"]\nx = """\n[tool.black]\n"""'),
            "[tool.pytest.ini_options\n",
        ],
        ids=["dotted", "inline", "header-in-a-string", "broken"],
    )
    def test_what_cannot_be_edited_safely_is_given_back(self, text: str) -> None:
        """The caller then restores the whole file."""
        assert with_pytest_section("pyproject.toml", text, PYPROJECT) is None

    def test_fake_header_in_an_ini_value_does_not_hide_the_section(self) -> None:
        """pytest takes only a bracket in the first column for a section; so do we."""
        text = "[metadata]\nlong =\n    [tool:pytest]\n[tool:pytest] # x\naddopts = -p evil\n"
        assert with_pytest_section("setup.cfg", text, "") == "[metadata]\nlong =\n    [tool:pytest]\n"
