"""The package's door: what it offers, and what a bare import costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import swelive_plugin


def test_every_name_at_the_door_is_there_and_its_home_says_so() -> None:
    for name in swelive_plugin.__all__:
        value = getattr(swelive_plugin, name)
        if name != "__version__":
            assert value.__module__ == f"swelive_plugin.{swelive_plugin._HOMES[name]}"
    assert sorted(swelive_plugin.__all__) == dir(swelive_plugin)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = swelive_plugin.nothing


def test_a_bare_import_is_quick_and_loads_neither_datasets_nor_rich() -> None:
    code = (
        "import json, sys, time\nbegan = time.perf_counter()\nimport swelive_plugin\n"
        "print(json.dumps([time.perf_counter() - began, sorted(sys.modules)]))"
    )
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(seconds for seconds, _ in runs) < 0.05
    loaded = set(runs[0][1])
    assert not loaded & {"datasets", "rich", "click", "msgspec", "pyarrow", "pytest", "filelock"}


def test_the_library_prints_nothing() -> None:
    grade = "grade(Instance('o__p-1', 'o/p', '0' * 40), 'x')"
    code = f"from swelive_plugin import Instance, grade\nprint({grade}.status.value)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("invalid_instance\n", "")
