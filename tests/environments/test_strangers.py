"""A registry offers strangers' packages under the checkout's own names, with higher versions: none is ever asked for.

The stand-in is an index on this machine that comes before the registry; it remembers which names it was asked for.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from swelive_plugin.environments import Environment
from swelive_plugin.environments.lock import locked_versions, split_lock
from swelive_plugin.environments.provider import UvProvider
from swelive_plugin.errors import EnvironmentBuildError
from swelive_plugin.sandbox.find import find_sandbox
from tests.environments.test_provider import repository, run
from tests.environments.test_siblings import project

pytestmark = pytest.mark.network


@dataclass
class Index:
    """What strangers uploaded, and the names that somebody asked for."""

    strangers: set[str]
    asked: set[str] = field(default_factory=set)
    url: str = ""


def wheel(name: str) -> tuple[str, bytes]:
    """Return a stranger's wheel with a high version: importing it fails."""
    stem = f"{name.replace('-', '_')}-99"
    files = {
        f"{name.replace('-', '_')}/__init__.py": "raise RuntimeError('a stranger')\n",
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 99\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"{stem}.dist-info/RECORD": "",
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), content)  # not the time of now: each request gets the same bytes
    return f"{stem}-py3-none-any.whl", data.getvalue()


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    made = Index(set())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, name = self.path.strip("/").split("/")[:2]
            if kind == "simple":
                made.asked.add(name)
            if kind == "simple" and name not in made.strangers:
                self.send_error(404)
                return
            if kind == "simple":
                file, data = wheel(name)
                digest = hashlib.sha256(data).hexdigest()
                entry = {"filename": file, "url": f"/files/{name}/{file}", "hashes": {"sha256": digest},
                         "upload-time": "2020-01-01T00:00:00Z"}  # fmt: skip
                body = json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": [entry]}).encode()
            else:
                body = wheel(name)[1]
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.send_error(405)  # uv then takes the whole file

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made.url = f"http://127.0.0.1:{server.server_port}/simple"
    monkeypatch.setenv("UV_INDEX", made.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def built(files: dict[str, str], tmp_path: Path, cache: Path, *tests: str) -> Environment:
    mirror, instance = repository(tmp_path, files)
    instance = type(instance)(instance.instance_id, instance.repo, instance.base_commit, fail_to_pass=tests)
    return UvProvider(cache).provide(instance, mirror=mirror, sandbox=find_sandbox())


def imports(made: Environment, tmp_path: Path, *modules: str) -> str:
    """Return where the modules come from, as the environment's interpreter imports them."""
    code = f"import {', '.join(modules)}; print(*({', '.join(f'{one}.__file__' for one in modules)},))"
    status, output = run(made, find_sandbox(), tmp_path, "-c", code)
    assert status == 0, output
    return output


def test_the_stand_in_offers_the_same_bytes_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash is asked for before its file; a wheel made anew two seconds later once had another hash."""
    first = wheel("zz-foreign")
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    assert wheel("zz-foreign") == first


def test_the_stand_in_is_asked_first(tmp_path: Path, cache: Path, index: Index) -> None:
    """Without this nothing below would mean anything: a name that is not the checkout's comes from the stranger."""
    index.strangers = {"zz-foreign"}
    made = built({"pyproject.toml": project("zz-own", "zz-foreign"), "zz_own/__init__.py": ""}, tmp_path, cache)
    assert locked_versions(made.lock_text)["zz-foreign"] == "99"
    assert "zz-foreign" in index.asked


def test_workspace_members_with_other_spellings_extras_and_a_third_sibling(
    tmp_path: Path, cache: Path, index: Index
) -> None:
    names = {"zz-a", "zz-my-b", "zz-c", "zz-dev", "zz-hidden"}
    index.strangers = set(names)
    sources = "[tool.uv.sources]\n'zz.my.b' = {workspace = true}\nzz-c = {workspace = true}\n"
    files = {
        "pyproject.toml": "[tool.uv.workspace]\nmembers = ['libs/*', 'more/**']\nexclude = ['libs/old']\n"
        "[dependency-groups]\ndev = ['ZZ.Dev']\n",
        "libs/a/pyproject.toml": project(
            "ZZ_A", "ZZ_my.B[extra]", more=f"{sources}[tool.setuptools]\npackages = ['zz_a']\n"
        ),
        "libs/a/zz_a/__init__.py": "import zz_my_b\n",
        "libs/b/pyproject.toml": project(
            "zz-my_b",
            more=f"[project.optional-dependencies]\nextra = ['zz_c', 'iniconfig']\n{sources}"
            "[tool.setuptools]\npackages = ['zz_my_b']\n",
        ),
        "libs/b/zz_my_b/__init__.py": "import zz_c, iniconfig\n",
        "more/deep/c/pyproject.toml": project(
            "zz.c",
            "zz-a",
            more="[tool.uv.sources]\nzz-a = {workspace = true}\n[tool.setuptools]\npackages = ['zz_c']\n",
        ),
        "more/deep/c/zz_c/__init__.py": "",
        "more/dev/pyproject.toml": project("zz-dev", more="[tool.setuptools]\npy-modules = ['zz_dev']\n"),
        "more/dev/zz_dev.py": "",
        "libs/old/pyproject.toml": project("zz-hidden"),
    }
    made = built(files, tmp_path, cache, "libs/a/tests/test_a.py::test_a")
    assert "site-packages" not in imports(made, tmp_path, "zz_a", "zz_my_b", "zz_c", "zz_dev")
    assert split_lock(made.lock_text).checkout == ("more/deep/c", "more/dev", "libs/b")
    assert not {canonicalize_name(name) for name in locked_versions(made.lock_text)} & names
    assert index.asked.isdisjoint(names)


def test_poetry_pdm_and_requirement_files_in_a_circle(tmp_path: Path, cache: Path, index: Index) -> None:
    names = {"zz-p", "zz-q", "zz-r", "zz-s"}
    index.strangers = set(names)
    files = {
        "pyproject.toml": "[build-system]\nrequires = ['poetry-core']\nbuild-backend = 'poetry.core.masonry.api'\n"
        "[tool.poetry]\nname = 'zz-p'\nversion = '1'\ndescription = ''\nauthors = []\n"
        "[tool.poetry.dependencies]\npython = '>=3.8'\nZZ_Q = {path = 'q', develop = true}\n",
        "zz_p/__init__.py": "import zz_q\n",
        "q/setup.py": "from setuptools import setup\nsetup(name='zz-q', version='1', py_modules=['zz_q'],\n"
        "      install_requires=['zz_r>=0'])\n",
        "q/zz_q.py": "",
        "requirements-test.txt": "-e ./r\nzz-s @ file:./s\n",
        "r/pyproject.toml": project("ZZ.R", "zz-p", more="[tool.setuptools]\npy-modules = ['zz_r']\n"),
        "r/zz_r.py": "",
        "s/setup.py": "from setuptools import setup\nname = ''.join(['zz', '-s'])\n"
        "setup(name=name, version='1', py_modules=['zz_s'])\n",
        "s/zz_s.py": "",
    }
    made = built(files, tmp_path, cache)
    assert "site-packages" not in imports(made, tmp_path, "zz_p", "zz_q", "zz_r", "zz_s")
    assert index.asked.isdisjoint(names)


def test_a_sibling_that_builds_the_project_is_the_checkouts(tmp_path: Path, cache: Path, index: Index) -> None:
    index.strangers = {"zz-builder", "zz-own"}
    files = {
        "pyproject.toml": "[build-system]\nrequires = ['setuptools', 'zz_builder']\n"
        "build-backend = 'zz_builder'\n[project]\nname = 'zz-own'\nversion = '1'\n"
        "[tool.setuptools]\npackages = ['zz_own']\n"
        "[tool.uv.sources]\nzz-builder = {path = 'builder'}\n",
        "zz_own/__init__.py": "",
        "builder/pyproject.toml": project("zz-builder", more="[tool.setuptools]\npy-modules = ['zz_builder']\n"),
        "builder/zz_builder.py": "from setuptools.build_meta import *\n",
    }
    made = built(files, tmp_path, cache)
    assert "site-packages" not in imports(made, tmp_path, "zz_own")
    assert index.asked.isdisjoint(index.strangers)


def test_a_path_outside_is_neither_installed_nor_asked_for(tmp_path: Path, cache: Path, index: Index) -> None:
    index.strangers = {"zz-outside", "zz-gone", "zz-own"}
    files = {
        "pyproject.toml": project(
            "zz-own", "zz-outside", "zz-plugin", more="[tool.uv.sources]\nzz-outside = {path = '../outside'}\n"
            "zz-plugin = {path = 'plugin'}\n[tool.setuptools]\npackages = ['zz_own']\n",
        ),
        "zz_own/__init__.py": "",
        "plugin/pyproject.toml": project(
            "zz-plugin", "zz-gone", "zz-own", more="[tool.uv.sources]\nzz-gone = {path = 'gone'}\n"
            "[tool.setuptools]\npy-modules = ['zz_plugin']\n",
        ),
        "plugin/zz_plugin.py": "",
    }  # fmt: skip
    made = built(files, tmp_path, cache)
    assert "site-packages" not in imports(made, tmp_path, "zz_own", "zz_plugin")
    assert made.recipe.excluded == ("zz-gone", "zz-outside")
    assert index.asked.isdisjoint(index.strangers)


def test_versions_that_the_checkout_does_not_have_are_no_reason_to_ask_a_registry(
    tmp_path: Path, cache: Path, index: Index
) -> None:
    index.strangers = {"zz-b"}
    files = {
        "pyproject.toml": project("zz-a", "zz-b>=50", more="[tool.uv.sources]\nzz-b = {path = 'b'}\n"),
        "zz_a/__init__.py": "",
        "b/pyproject.toml": project("zz-b", more="[tool.setuptools]\npy-modules = ['zz_b']\n"),
        "b/zz_b.py": "",
    }
    with pytest.raises(EnvironmentBuildError, match="zz-b"):
        built(files, tmp_path, cache)
    assert index.asked.isdisjoint(index.strangers)
