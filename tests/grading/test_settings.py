"""Settings: a value that no grade can be held to is refused where it is given, not found out by a verdict."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin import Settings
from swelive_plugin.errors import UsageError


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"scope": "All"}, "scope can't be 'All' (use 'f2p-files' or 'all' or None)"),
        ({"scope": "f2p_files"}, "scope can't be 'f2p_files'"),
        ({"scope": ["all"]}, "scope can't be ['all']"),
        ({"controls": "bogus"}, "controls can't be 'bogus' (use 'auto' or 'off')"),
        ({"mutate": "x"}, "mutate can't be 'x' (use 'auto' or 'always' or 'off')"),
        ({"policy": None}, "policy can't be None"),
        ({"sandbox": ""}, "sandbox can't be ''"),
        ({"repo_url": 7}, "repo_url can't be 7"),
        ({"network": "no"}, "network can't be 'no' (use True or False)"),
        ({"timeout_s": "600"}, "timeout_s can't be '600' (give a positive number of seconds)"),
        ({"timeout_s": True}, "timeout_s can't be True"),
        ({"timeout_s": math.nan}, "timeout_s can't be nan"),
        ({"timeout_s": math.inf}, "timeout_s can't be inf"),
        ({"timeout_s": 0}, "timeout_s can't be 0"),
        ({"memory_mib": "8192"}, "memory_mib can't be '8192' (give a positive whole number, or None for no limit)"),
        ({"memory_mib": 0.5}, "memory_mib can't be 0.5"),
        ({"processes": -1}, "processes can't be -1"),
        ({"cache": 7}, "cache can't be 7 (give a folder's path)"),
        ({"cache": ""}, "cache can't be ''"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(given: dict[str, Any], told: str) -> None:
    """Defect: scope="All" ran as f2p-files and changed the verdict, cache="/tmp/x" ended in a TypeError."""
    with pytest.raises(UsageError) as refused:
        Settings(**given)
    assert str(refused.value).startswith(told)


def test_values_in_every_allowed_form_are_taken(tmp_path: Path) -> None:
    given: dict[str, Any] = {"cache": str(tmp_path), "timeout_s": 600, "memory_mib": None, "processes": 64}
    settings = Settings(**given, scope="all", controls="off", mutate="always")
    assert (settings.cache, settings.timeout_s, settings.memory_mib) == (tmp_path, 600, None)
    assert settings.key == Settings(**{**given, "cache": tmp_path}, scope="all", controls="off", mutate="always").key
