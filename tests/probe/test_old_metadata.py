"""pytest of 2019 brings an importlib-metadata whose `distributions` takes no path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from swelive_plugin.probe import start


def test_entry_points_are_found_where_the_backport_takes_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """xarray of July 2019 could not be graded: TypeError, distributions() got an unexpected keyword argument 'path'."""

    def distributions() -> Iterator[SimpleNamespace]:
        for folder in sys.path:
            yield SimpleNamespace(metadata={"Name": f"in {folder}"})

    module = SimpleNamespace(distributions=distributions)
    monkeypatch.setattr(start, "_metadata_of_pluggy", lambda: module)
    before = list(sys.path)
    with start._only_installed(["/site"], None):
        found = [dist.metadata["Name"] for dist in module.distributions()]
    assert found == ["in /site"]
    assert sys.path == before
    assert module.distributions is distributions


def test_only_the_named_distributions_load_where_pluggy_asks_pkg_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(name: str) -> SimpleNamespace:
        return SimpleNamespace(dist=SimpleNamespace(project_name=name))

    def iter_entry_points(group: str) -> Iterator[SimpleNamespace]:
        assert group == "pytest11"
        return iter([entry("pytest-cov"), entry("Pytest_Evil")])

    module = SimpleNamespace(iter_entry_points=iter_entry_points)
    monkeypatch.setattr(start, "_metadata_of_pluggy", lambda: None)
    monkeypatch.setitem(sys.modules, "pkg_resources", module)
    for names, wanted in (
        (None, ["pytest-cov", "Pytest_Evil"]),
        (["Pytest-Cov"], ["pytest-cov"]),
        (["pytest.evil"], ["Pytest_Evil"]),
    ):
        with start._only_installed(["/site"], names):
            found = [entry.dist.project_name for entry in module.iter_entry_points("pytest11")]
        assert found == wanted
    assert module.iter_entry_points is iter_entry_points
