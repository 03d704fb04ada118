"""pytest of 2019 brings an importlib-metadata whose `distributions` takes no path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from swelive_plugin.inside import start


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
