"""Set-up that every test shares: no test reads or writes the person's own cache or SWELIVE_* variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.startswith("SWELIVE_") and not name.startswith("SWELIVE_TEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SWELIVE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "swelive-cache"))


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the tests that build real environments, so that each environment is built once."""
    chosen = os.environ.get("SWELIVE_TEST_CACHE")
    return Path(chosen) if chosen else tmp_path_factory.mktemp("shared-cache")
