"""Real projects from their source distributions: two releases make a base, a fix and its hidden tests.

The environment is built for real, by uv, as of the older release's day; nothing but the package registry is needed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from swelive_plugin.core.verdict import Status
from swelive_plugin.grading.pipeline import grade
from swelive_plugin.grading.settings import Settings
from tests.host import Project, diff_of, make_project

pytestmark = [pytest.mark.network, pytest.mark.slow]


@dataclass(frozen=True)
class Releases:
    """Two releases of a project: what changed between them in the source and in the tests, and what turns green."""

    name: str
    old: str
    new: str
    date: str
    source: tuple[str, ...]
    tests: tuple[str, ...]
    f2p: tuple[str, ...]
    p2p: tuple[str, ...]


PARSE = Releases(
    name="parse",
    old="1.20.1",
    new="1.20.2",
    date="2024-02-01T00:00:00+0000",
    source=("parse.py",),
    tests=("tests/test_parse.py",),
    f2p=(
        "tests/test_parse.py::test_hyphen_inside_field_name",
        "tests/test_parse.py::test_hyphen_inside_field_name_collision_handling",
    ),
    p2p=("tests/test_parse.py::test_no_match", "tests/test_parse.py::test_parser_format"),
)


def fetch_sdist(name: str, version: str, folder: Path) -> Path:
    """Return the unpacked source distribution of one release, brought by pip from the registry."""
    pip = next((pip for pip in ([sys.executable, "-m", "pip"], ["pip"], ["pip3"]) if answers(pip)), None)
    if pip is None:
        pytest.skip("pip is not installed, and uv can't download a source distribution")
    wanted = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), f"{name}=={version}"]
    done = subprocess.run([*pip, *wanted], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (archive,) = folder.glob(f"{name}-{version}*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder)  # from the registry, by name and version
    return folder / f"{name}-{version}"


def answers(pip: list[str]) -> bool:
    if shutil.which(pip[0]) is None:
        return False
    return subprocess.run([*pip, "--version"], capture_output=True).returncode == 0


def texts(folder: Path) -> dict[str, str]:
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and ".egg-info" not in name and name != "PKG-INFO":
            found[name] = path.read_bytes().decode("utf-8", "replace")
    return found


@pytest.fixture(scope="module", params=[PARSE], ids=lambda releases: releases.name)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    releases: Releases = request.param
    folder = tmp_path_factory.mktemp(releases.name)
    old = texts(fetch_sdist(releases.name, releases.old, folder))
    new = texts(fetch_sdist(releases.name, releases.new, folder))
    return make_project(
        folder,
        old,
        gold={name: new[name] for name in releases.source},
        tests={name: new[name] for name in releases.tests},
        f2p=list(releases.f2p),
        p2p=list(releases.p2p),
        date=releases.date,
    )


@pytest.fixture(scope="module")
def settings(real: Project, shared_cache: Path) -> Settings:
    return real.settings(shared_cache, timeout_s=300.0)


def test_gold_is_resolved(real: Project, settings: Settings) -> None:
    verdict = grade(real.instance, real.instance.patch, settings)
    assert (verdict.status, verdict.reasons) == (Status.RESOLVED, ())
    assert verdict.controls == "base+gold"
    assert verdict.pytest_version.split(".")[0] in ("7", "8")  # that day's, not today's


def test_a_comment_is_unresolved(real: Project, settings: Settings) -> None:
    name = real.instance.patch.split("+++ b/", 1)[1].split("\n", 1)[0]
    source = (real.repository / name).read_text()
    verdict = grade(real.instance, diff_of(real.repository, {name: source + "\n# nothing new\n"}), settings)
    assert verdict.status is Status.UNRESOLVED
    assert [reason.test for reason in verdict.reasons] == list(real.instance.fail_to_pass)


def test_nothing_is_empty(real: Project, settings: Settings) -> None:
    assert grade(real.instance, "", settings).status is Status.EMPTY_PATCH
