"""Environments that are really built, from small repositories that the tests make; packages come from the registry."""

# ruff: noqa: E501  the lines of other people's files are as long as they are
from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from swelive_plugin.core.instance import Instance
from swelive_plugin.environments import VENV, Environment, Trial
from swelive_plugin.environments.interpreters import find_interpreters
from swelive_plugin.environments.provider import UvProvider, describe
from swelive_plugin.environments.search import search
from swelive_plugin.environments.uv import find_uv, mounts_and_variables
from swelive_plugin.errors import EnvironmentBuildError, InfraError, NoInterpreter
from swelive_plugin.extensions import environment_provider
from swelive_plugin.grading.settings import Settings
from swelive_plugin.recipes.recipe import Recipe, recipe_to_toml
from swelive_plugin.sandbox import Command, Limits, Mount, Sandbox
from swelive_plugin.sandbox.find import find_sandbox
from swelive_plugin.sandbox.plain import Plain

DATE = "2024-06-01T12:00:00Z"
FILES = {
    "pyproject.toml": "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
    "[project]\nname = 'tiny'\nversion = '1'\ndependencies = ['iniconfig']\n",
    "tiny/__init__.py": "import iniconfig\nVALUE = 1\n",
    "tests/test_tiny.py": "import tiny\ndef test_value():\n    assert tiny.VALUE == 1\n",
}


def repository(folder: Path, files: dict[str, str], date: str = DATE) -> tuple[Path, Instance]:
    """Return a bare mirror with one commit of ``date``, and an instance of it."""
    work = folder / "work"
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    env = {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": os.devnull}
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for argv in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "base"]):
        subprocess.run(["git", *argv], cwd=work, env=env, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(folder / "mirror.git")], check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=work, check=True, capture_output=True, text=True
    ).stdout.strip()
    return folder / "mirror.git", Instance("o__tiny-1", "o/tiny", commit)


def run(environment: Environment, sandbox: Sandbox, tmp_path: Path, *argv: str) -> tuple[int, str]:
    """Run the environment's interpreter on a view of its tree, without network."""
    tree = Mount(environment.tree, "/testbed", "overlay" if sandbox.overlays else "rw")
    output = tmp_path / "output.txt"
    done = sandbox.run(
        Command(
            argv=(environment.python, *argv), cwd=sandbox.inside(tree), env=environment.env,
            mounts=(*environment.mounts, tree), limits=Limits(wall_clock_s=120),
        ),
        output=output,
    )  # fmt: skip
    return done.exit_status, output.read_text()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.network
@pytest.mark.parametrize("sandbox", [find_sandbox(), Plain()], ids=lambda made: made.name)
def test_an_environment_of_the_commits_day_runs_the_projects_tests(
    tmp_path: Path, cache: Path, sandbox: Sandbox
) -> None:
    mirror, instance = repository(tmp_path, FILES)
    made = UvProvider(cache).provide(instance, mirror=mirror, sandbox=sandbox)
    assert run(made, sandbox, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")[0] == 0
    assert "pytest==8.2.1 \\" in made.lock_text  # the newest on 1 June 2024; 8.2.2 came three days later
    assert "--hash=sha256:" in made.lock_text
    assert "tiny" not in made.lock_text
    assert made.python.startswith(VENV if sandbox.name == "bubblewrap" else str(cache))
    told = describe(made)
    assert "iniconfig" in told["lock"]
    assert told["python"].startswith(made.recipe.python)
    again = UvProvider(cache).provide(instance, mirror=mirror, sandbox=sandbox, progress=pytest.fail)
    assert again == made
    assert not (made.tree / ".git").exists()


@pytest.mark.network
def test_the_same_lock_gives_the_same_key_and_the_store_works_offline(tmp_path: Path, cache: Path) -> None:
    mirror, instance = repository(tmp_path, FILES)
    sandbox, provider = find_sandbox(), UvProvider(cache)
    made = provider.provide(instance, mirror=mirror, sandbox=sandbox)
    provider.store.gc(max_size_mib=0)
    back = provider.provide(instance, mirror=mirror, sandbox=sandbox, offline=True)
    assert (back.key, back.lock_text) == (made.key, made.lock_text)


@pytest.mark.network
def test_an_old_setup_py_is_developed_as_it_was_before_setuptools_64(tmp_path: Path, cache: Path) -> None:
    there = {interpreter.minor for interpreter in find_interpreters()}
    if not there & {(3, 7), (3, 8), (3, 9)}:
        pytest.skip("no interpreter of 2021 is here")
    files = {
        "setup.py": "from setuptools import setup\nsetup(name='old', version='1', packages=['old'], install_requires=['six'],\n"
        "    entry_points={'console_scripts': ['old-tool = old:main']})\n",
        "old/__init__.py": "import six\ndef main():\n    print('from', __file__)\n",
        "tests/test_old.py": "import subprocess\ndef test_tool():\n    assert b'/old/__init__' in subprocess.check_output(['old-tool'])\n",
    }
    mirror, instance = repository(tmp_path, files, "2021-02-01T00:00:00Z")
    sandbox = find_sandbox()
    made = UvProvider(cache).provide(instance, mirror=mirror, sandbox=sandbox)
    assert made.python_version < (3, 10)
    status, output = run(made, sandbox, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert status == 0, output


@pytest.mark.network
def test_a_setup_cfg_alone_is_developed_too(tmp_path: Path, cache: Path) -> None:
    """pylint of August 2022: no setup.py any more, and no setuptools yet that makes editable installs."""
    files = {
        "pyproject.toml": "[build-system]\nrequires = ['setuptools~=62.6']\nbuild-backend = 'setuptools.build_meta'\n",
        "setup.cfg": "[metadata]\nname = cfg\nversion = 1\n[options]\npackages = cfg\n",
        "cfg/__init__.py": "",
    }
    mirror, instance = repository(tmp_path, files, "2022-08-08T00:00:00Z")
    sandbox = find_sandbox()
    made = UvProvider(cache).provide(instance, mirror=mirror, sandbox=sandbox)
    assert run(made, sandbox, tmp_path, "-c", "import cfg; assert 'site-packages' not in cfg.__file__")[0] == 0


@pytest.mark.network
def test_a_project_without_packaging_files_is_importable(tmp_path: Path, cache: Path) -> None:
    mirror, instance = repository(
        tmp_path,
        {
            "src/mod.py": "V = 1\n",
            "pkg/__init__.py": "",
            "requirements.txt": "six\n",
            "Makefile": "test:\n\tmkdir data; pytest\n",
        },
    )
    sandbox = find_sandbox()
    made = UvProvider(cache).provide(instance, mirror=mirror, sandbox=sandbox)
    assert run(made, sandbox, tmp_path, "-c", "import mod, pkg, six; open('data/x', 'w')")[0] == 0


@pytest.mark.network
def test_what_the_mirror_does_not_have_is_told_and_is_another_environment(tmp_path: Path, cache: Path) -> None:
    """A mirror without old, large files: whoever reads why the controls fail must learn of it."""
    mirror, instance = repository(tmp_path, {**FILES, "tests/table.dat": "large once"})
    whole = UvProvider(cache).provide(instance, mirror=mirror, sandbox=find_sandbox())
    assert whole.lacks == ()
    blob = subprocess.run(
        ["git", "--git-dir", str(mirror), "rev-parse", "HEAD:tests/table.dat"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    (mirror / "objects" / blob[:2] / blob[2:]).unlink()
    told: list[str] = []
    UvProvider(cache).store.forget(instance.repo, instance.base_commit)
    lacking = UvProvider(cache).provide(instance, mirror=mirror, sandbox=find_sandbox(), progress=told.append)
    assert lacking.lacks == ("tests/table.dat",)
    assert lacking.key != whole.key
    assert "not to be had from the mirror: tests/table.dat" in told
    found = search([lacking.recipe], build=lambda _: lacking, check=lambda _: Trial(False, note="fails with gold"))
    assert found.cause == "fails with gold (the mirror does not have tests/table.dat)"


@pytest.mark.network
def test_a_setup_that_fails_shows_the_end_of_its_real_log(tmp_path: Path, cache: Path) -> None:
    mirror, instance = repository(tmp_path, {"setup.py": "input('Which way? ')\n"})
    with pytest.raises(EnvironmentBuildError, match=r"o__tiny-1: .*EOFError") as caught:
        UvProvider(cache).provide(instance, mirror=mirror, sandbox=find_sandbox())
    assert "Which way?" in caught.value.evidence


@pytest.mark.network
def test_a_decided_recipe_comes_first_and_may_name_what_is_not_here(tmp_path: Path) -> None:
    mirror, instance = repository(tmp_path, FILES)
    folder = tmp_path / "recipes" / instance.instance_id
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(recipe_to_toml(Recipe(python="3.99")))
    provider = environment_provider(Settings(cache=tmp_path / "cache", recipes=tmp_path / "recipes"))
    with pytest.raises(NoInterpreter, match=r"no interpreter here fits Python 3\.99"):
        provider.provide(instance, mirror=mirror, sandbox=find_sandbox())


@pytest.mark.network
def test_the_search_keeps_what_the_controls_chose(tmp_path: Path, cache: Path) -> None:
    mirror, instance = repository(tmp_path, {**FILES, "README": "another commit"})
    provider, sandbox = UvProvider(cache), find_sandbox()

    def check(made: Environment) -> Trial:
        return Trial("six==" in made.lock_text, 1, "ModuleNotFoundError: No module named 'six'")

    found = provider.search(instance, mirror=mirror, sandbox=sandbox, check=check)
    assert [(attempt.recipe.name, attempt.outcome) for attempt in found.attempts] == [
        ("full", "does not hold"),
        ("full+", "holds"),
    ]
    assert provider.provide(instance, mirror=mirror, sandbox=sandbox) == found.environment


@pytest.mark.network
def test_a_generated_module_comes_from_the_projects_last_release(tmp_path: Path, cache: Path) -> None:
    files = {
        "pyproject.toml": "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
        "[project]\nname = 'iniconfig'\nversion = '2.0.1'\n[tool.setuptools]\npackages = ['iniconfig']\n"
        "package-dir = {'' = 'src'}\n",
        "src/iniconfig/__init__.py": "from iniconfig._version import version\n",
        ".gitignore": "src/iniconfig/_version.py\n",
    }
    mirror, instance = repository(tmp_path, files)
    sandbox, outputs = find_sandbox(), []

    def check(made: Environment) -> Trial:
        status, text = run(made, sandbox, tmp_path, "-c", "import iniconfig; print(iniconfig.version)")
        outputs.append(text.strip())
        return Trial(status == 0, 1, text)

    found = UvProvider(cache).search(instance, mirror=mirror, sandbox=sandbox, check=check)
    assert found.holds
    assert [attempt.outcome for attempt in found.attempts] == ["does not hold", "holds"]
    assert outputs[-1] == "2.0.0"  # the last release before the commit's date


def _provide(cache: Path, mirror: Path, instance: Instance) -> None:
    made = UvProvider(cache).provide(instance, mirror=mirror, sandbox=find_sandbox())
    print(made.key)


@pytest.mark.network
def test_parallel_builds_and_a_kill_in_the_middle_leave_one_whole_environment(tmp_path: Path) -> None:
    mirror, instance = repository(tmp_path, FILES)
    cache = tmp_path / "cache"
    context = multiprocessing.get_context("spawn")
    victim = context.Process(target=_provide, args=(cache, mirror, instance))
    victim.start()
    built = cache / "environments" / "built"
    until = time.monotonic() + 60
    while not list(built.glob("*")) and time.monotonic() < until and victim.is_alive():
        time.sleep(0.002)  # until it is in the middle
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    others = [context.Process(target=_provide, args=(cache, mirror, instance)) for _ in range(2)]
    for process in others:
        process.start()
    for process in others:
        process.join()
    assert [process.exitcode for process in others] == [0, 0]
    assert [(item.repo, item.recipe) for item in UvProvider(cache).store.kept()] == [("o/tiny", "full")]


def test_too_little_room_is_our_error_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, instance = repository(tmp_path, FILES)
    monkeypatch.setattr("swelive_plugin.environments.provider.free_mib", lambda _: 10.0)
    with pytest.raises(InfraError, match="less than 1024 MiB are left") as caught:
        UvProvider(tmp_path / "cache").provide(instance, mirror=mirror, sandbox=find_sandbox())
    assert "gc" in caught.value.hint


def test_the_users_own_index_proxy_and_certificates_work_in_a_build(tmp_path: Path) -> None:
    (tmp_path / ".config" / "uv").mkdir(parents=True)
    (tmp_path / ".config" / "uv" / "uv.toml").write_text("")
    (tmp_path / ".netrc").write_text("")
    (tmp_path / "ca.pem").write_text("")
    host = {
        "HOME": str(tmp_path), "UV_DEFAULT_INDEX": "https://index.example/simple", "UV_INDEX_MINE_PASSWORD": "secret",
        "HTTPS_PROXY": "http://proxy.example", "SSL_CERT_FILE": str(tmp_path / "ca.pem"), "UV_PYTHON": "3.1",
        "UV_EXCLUDE_NEWER": "2000-01-01", "TOKEN": "secret",
    }  # fmt: skip
    uv = replace(find_uv(), cache=tmp_path / "uv-cache")
    mounts, env = mounts_and_variables(uv, find_sandbox(), offline=True, environ=host)
    assert {
        "UV_DEFAULT_INDEX",
        "UV_INDEX_MINE_PASSWORD",
        "HTTPS_PROXY",
        "SSL_CERT_FILE",
        "NETRC",
        "XDG_CONFIG_HOME",
    } <= set(env)
    assert not {"UV_PYTHON", "UV_EXCLUDE_NEWER", "TOKEN", "HOME"} & set(env)
    assert env["UV_OFFLINE"] == "1"
    writable = [mount.source for mount in mounts if mount.kind != "ro"]
    assert writable == [uv.cache]
    assert {tmp_path / "ca.pem", tmp_path / ".netrc", tmp_path / ".config" / "uv"} <= {mount.source for mount in mounts}
