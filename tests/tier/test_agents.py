"""What a command of an agent may name in braces."""

from __future__ import annotations

import pytest

from swelive_plugin.errors import UsageError
from swelive_plugin.tier.agents import agents_of


@pytest.mark.parametrize("command", ["solve {bogus}", "solve {workdir} --model={model}", "solve '{Prompt_file}'"])
def test_unknown_placeholder_is_refused(command: str) -> None:
    """It went to the shell as it was, and the agent got the braces."""
    with pytest.raises(UsageError, match="unknown placeholder") as caught:
        agents_of([f"mine={command}"])
    assert "{workdir}, {prompt_file}, {out_dir}" in caught.value.hint


@pytest.mark.parametrize(
    "command",
    [
        "solve {workdir} {prompt_file} {out_dir}", "echo ${HOME}", "for f in {1..3}; do :; done", "cat {a,b}.txt",
        "awk '{ print }'", "solve --json '{\"dir\": 1}'", "{ solve; }", "solve --template '{{task}}'",
    ],
)  # fmt: skip
def test_braces_of_the_shell_stay(command: str) -> None:
    assert agents_of([f"mine={command}"])[0].command == command
