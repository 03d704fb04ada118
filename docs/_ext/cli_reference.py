"""Write the command reference from click's own objects: the page holds a marker, the options come from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from swelive_plugin.cli.main import cli

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MARKER = "<!-- commands -->"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("source-read", _replace_marker)
    return {"parallel_read_safe": True}


def _replace_marker(_app: Sphinx, _docname: str, source: list[str]) -> None:
    if MARKER in source[0]:
        source[0] = source[0].replace(MARKER, "\n".join(reference()))


def commands(group: click.Group = cli, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield a context for each command that does something, subcommands included, in the order of ``--help``."""
    settings = group.context_settings if parent is None else {}
    here = click.Context(group, parent, info_name="swelive" if parent is None else group.name, **settings)
    for name in group.list_commands(here):
        command = group.get_command(here, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, here)
        else:
            yield click.Context(command, here, info_name=name)


def reference() -> Iterator[str]:
    """Yield the lines of the reference, as Markdown."""
    for context in commands():
        yield from ["", f"## {context.command_path}", ""]
        yield from ["```text", " ".join(context.get_usage().split()), "```", ""]
        yield from _description(context.command.help or "")
        options = [each for each in context.command.get_params(context) if isinstance(each, click.Option)]
        yield from ["| option | variable | default | meaning |", "|---|---|---|---|"]
        yield from (_row(option, context) for option in options if "--help" not in option.opts)
        yield ""


def _description(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring; those that click prints as they are (``\\b``) become code."""
    for paragraph in inspect.cleandoc(text).replace("\f", "").split("\n\n"):
        lines = paragraph.split("\n")
        if lines[0] == "\b":
            yield from ["```text", *lines[1:], "```", ""]
        else:
            yield from [_escaped(" ".join(lines)), ""]


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    metavar = "" if option.is_flag else f" `{option.make_metavar(context)}`"
    meaning, default = _meaning_and_default(option)
    return f"| {names}{_cell(metavar)} | `{variable(option, context)}` | {_cell(default)} | {_escaped(meaning)} |"


def variable(option: click.Option, context: click.Context) -> str:
    """Return the name of the environment variable that click reads for an option."""
    if option.envvar:
        assert isinstance(option.envvar, str)
        return option.envvar
    return f"{context.auto_envvar_prefix}_{option.name}".upper()


def _meaning_and_default(option: click.Option) -> tuple[str, str]:
    """Return the help text without the default that its end may name, and the default."""
    text = " ".join((option.help or "").split())
    named = re.fullmatch(r"(.*?)\s*\[default: (.*)\]", text)
    if named:
        return named[1], named[2]
    if option.required:
        return text, "required"
    if option.show_default and option.default is not None:
        return text, f"`{option.default}`"
    return text, ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _escaped(text: str) -> str:
    """Return plain text as Markdown that shows it as it is; backticks stay."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_{}<>|\[\]])", r"\\\1", part) for part in parts)
