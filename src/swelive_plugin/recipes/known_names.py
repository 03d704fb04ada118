"""Names to distributions: which one provides an option, an ini key, a fixture, a marker or a module.

Sources: the documentation of each plugin, and the top-level names of each distribution. Only what can't be told from
the
name itself is here. An empty string: nothing to install.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FIXTURES", "INI_KEYS", "MARKERS", "MODULES", "NAMESPACES", "OPTIONS"]

# fmt: off
# Command line options of plugins, as addopts may name them; a name also stands for its longer forms (--cov-report).
OPTIONS: Mapping[str, str] = {
    "--cov": "pytest-cov", "--no-cov": "pytest-cov", "--numprocesses": "pytest-xdist", "--dist": "pytest-xdist",
    "--maxprocesses": "pytest-xdist", "--timeout": "pytest-timeout", "--session-timeout": "pytest-timeout",
    "--reruns": "pytest-rerunfailures", "--only-rerun": "pytest-rerunfailures", "--asyncio": "pytest-asyncio",
    "--mypy": "pytest-mypy", "--flake8": "pytest-flake8", "--black": "pytest-black", "--isort": "pytest-isort",
    "--pylint": "pytest-pylint", "--pycodestyle": "pytest-pycodestyle", "--pydocstyle": "pytest-pydocstyle",
    "--benchmark": "pytest-benchmark", "--mpl": "pytest-mpl", "--doctest-plus": "pytest-doctestplus",
    "--doctest-rst": "pytest-doctestplus", "--doctest-cython": "pytest-cython", "--remote-data": "pytest-remotedata",
    "--open-files": "pytest-openfiles", "--randomly": "pytest-randomly", "--html": "pytest-html",
    "--self-contained-html": "pytest-html", "--json-report": "pytest-json-report", "--ds": "pytest-django",
    "--reuse-db": "pytest-django", "--create-db": "pytest-django", "--nomigrations": "pytest-django",
    "--no-migrations": "pytest-django", "--nbval": "nbval", "--nbval-lax": "nbval", "--nbmake": "nbmake",
    "--snapshot": "syrupy", "--inline-snapshot": "inline-snapshot", "--disable-socket": "pytest-socket",
    "--allow-hosts": "pytest-socket", "--allow-unix-socket": "pytest-socket", "--forked": "pytest-forked",
    "--boxed": "pytest-forked", "--instafail": "pytest-instafail", "--random-order": "pytest-random-order",
    "--hypothesis": "hypothesis", "--ruff": "pytest-ruff", "--codeblocks": "pytest-codeblocks",
    "--memray": "pytest-memray", "--parallel-threads": "pytest-run-parallel", "--codspeed": "pytest-codspeed",
    "--typeguard-packages": "typeguard", "--beartype-packages": "pytest-beartype",
    "--markdown-docs": "pytest-markdown-docs", "--splits": "pytest-split", "--mypy-ini-file": "pytest-mypy-plugins",
    "--mypy-only-local-stub": "pytest-mypy-plugins", "--mypy-testing-base": "pytest-mypy-plugins",
    "--record-mode": "pytest-recording", "--block-network": "pytest-recording", "--vcr-record": "pytest-vcr",
    "--spec": "pytest-spec", "--profile": "pytest-profiling", "--picked": "pytest-picked",
    "--testmon": "pytest-testmon", "--emoji": "pytest-emoji", "--md-report": "pytest-md-report",
    "--docker-compose": "pytest-docker", "--alluredir": "allure-pytest", "--repeat": "pytest-repeat",
    "--count": "pytest-repeat", "--order-scope": "pytest-order", "--sugar": "pytest-sugar",
    "--force-sugar": "pytest-sugar", "--envfile": "pytest-dotenv", "--report-log": "pytest-reportlog",
    "--github-report": "pytest-github-report", "--verbose-parametrize": "pytest-verbose-parametrize",
    "--pspec": "pytest-pspec", "--xvfb": "pytest-xvfb", "--no-xvfb": "pytest-xvfb", "--qt-": "pytest-qt",
    "--anyio": "anyio", "--fail-slow": "pytest-fail-slow", "--check-max-tb": "pytest-check",
    "--regtest": "pytest-regtest", "--jaxtyping-packages": "jaxtyping", "--localserver": "pytest-localserver",
}

# Keys of the pytest configuration.
INI_KEYS: Mapping[str, str] = {
    "asyncio_mode": "pytest-asyncio", "asyncio_default_fixture_loop_scope": "pytest-asyncio",
    "timeout": "pytest-timeout", "timeout_method": "pytest-timeout", "timeout_func_only": "pytest-timeout",
    "env": "pytest-env", "env_files": "pytest-dotenv", "django_settings_module": "pytest-django",
    "django_find_project": "pytest-django", "python_paths": "pytest-pythonpath",
    "mock_use_standalone_module": "pytest-mock", "doctest_plus": "pytest-doctestplus",
    "doctest_plus_atol": "pytest-doctestplus", "text_file_format": "pytest-doctestplus",
    "doctest_subpackage_requires": "pytest-doctestplus", "doctest_norecursedirs": "pytest-doctestplus",
    "remote_data_strict": "pytest-remotedata", "open_files_ignore": "pytest-openfiles", "qt_api": "pytest-qt",
    "flake8-max-line-length": "pytest-flake8", "flake8-ignore": "pytest-flake8", "mpl-results-path": "pytest-mpl",
    "looponfailroots": "pytest-xdist", "rsyncdirs": "pytest-xdist", "vcr_cassette_dir": "pytest-vcr",
    "inputs_dir": "pytest-datadir", "randomly_seed": "pytest-randomly", "reruns": "pytest-rerunfailures",
    "mypy_testing_base": "pytest-mypy-plugins", "typeguard-packages": "typeguard", "httpx_mock": "pytest-httpx",
    "codspeed": "pytest-codspeed", "xvfb_width": "pytest-xvfb", "anyio_mode": "anyio",
    "freezegun_ignore_list": "pytest-freezegun",
}

# Fixtures of plugins.
FIXTURES: Mapping[str, str] = {
    "mocker": "pytest-mock", "class_mocker": "pytest-mock", "module_mocker": "pytest-mock",
    "session_mocker": "pytest-mock", "benchmark": "pytest-benchmark", "snapshot": "syrupy",
    "httpx_mock": "pytest-httpx", "requests_mock": "requests-mock", "freezer": "pytest-freezer", "faker": "faker",
    "qtbot": "pytest-qt", "qapp": "pytest-qt", "aiohttp_client": "pytest-aiohttp", "aiohttp_server": "pytest-aiohttp",
    "httpserver": "pytest-httpserver", "datadir": "pytest-datadir", "shared_datadir": "pytest-datadir",
    "original_datadir": "pytest-datadir", "data_regression": "pytest-regressions",
    "file_regression": "pytest-regressions", "num_regression": "pytest-regressions",
    "dataframe_regression": "pytest-regressions", "subtests": "pytest-subtests", "event_loop": "pytest-asyncio",
    "unused_tcp_port": "pytest-asyncio", "fs": "pyfakefs", "respx_mock": "respx", "socket_enabled": "pytest-socket",
    "socket_disabled": "pytest-socket", "django_db_setup": "pytest-django", "rf": "pytest-django",
    "django_user_model": "pytest-django", "admin_client": "pytest-django", "settings": "pytest-django",
    "lazy_fixture": "pytest-lazy-fixture", "docker_services": "pytest-docker", "responses": "pytest-responses",
    "time_machine": "time-machine", "script_runner": "pytest-console-scripts", "postgresql": "pytest-postgresql",
    "redisdb": "pytest-redis", "aioresponses": "aioresponses", "image_regression": "pytest-regressions",
    "virtualenv": "pytest-virtualenv", "httpbin": "pytest-httpbin", "httpbin_secure": "pytest-httpbin",
    "fp": "pytest-subprocess", "fake_process": "pytest-subprocess", "cov": "pytest-cov", "golden": "pytest-golden",
    "pyfakefs": "pyfakefs", "worker_id": "pytest-xdist", "vcr": "pytest-recording", "jp_serverapp": "pytest-jupyter",
    "jp_fetch": "pytest-jupyter", "nb_regression": "pytest-notebook",
}

# Markers of plugins.
MARKERS: Mapping[str, str] = {
    "asyncio": "pytest-asyncio", "trio": "pytest-trio", "anyio": "anyio", "flaky": "pytest-rerunfailures",
    "timeout": "pytest-timeout", "django_db": "pytest-django", "vcr": "pytest-recording",
    "freeze_time": "pytest-freezer", "benchmark": "pytest-benchmark", "datafiles": "pytest-datafiles",
    "remote_data": "pytest-remotedata", "order": "pytest-order", "dependency": "pytest-dependency",
    "repeat": "pytest-repeat", "xdist_group": "pytest-xdist", "forked": "pytest-forked",
    "mpl_image_compare": "pytest-mpl", "enable_socket": "pytest-socket", "httpx_mock": "pytest-httpx",
    "twisted": "pytest-twisted", "respx": "respx", "parametrize_with_cases": "pytest-cases",
    "array_compare": "pytest-arraydiff",
}

# Names that many distributions share: how many parts of the import name make the distribution's.
NAMESPACES: Mapping[str, int] = {
    "google": 2, "azure": 2, "zope": 2, "sphinxcontrib": 2, "backports": 2, "jaraco": 2, "opentelemetry": 2,
    "airflow_providers": 2, "flask_ext": 2, "repoze": 2, "plone": 2, "ansible_collections": 3,
}

# Import names.
MODULES: Mapping[str, str] = {
    "yaml": "PyYAML", "PIL": "Pillow", "cv2": "opencv-python-headless", "sklearn": "scikit-learn",
    "skimage": "scikit-image", "bs4": "beautifulsoup4", "dateutil": "python-dateutil", "dotenv": "python-dotenv",
    "attr": "attrs", "git": "GitPython", "jwt": "PyJWT", "jose": "python-jose", "docx": "python-docx",
    "pptx": "python-pptx", "magic": "python-magic", "serial": "pyserial", "OpenSSL": "pyOpenSSL",
    "Crypto": "pycryptodome", "Cryptodome": "pycryptodomex", "nacl": "PyNaCl", "zmq": "pyzmq",
    "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient", "ldap": "python-ldap", "usb": "pyusb", "fitz": "PyMuPDF",
    "slugify": "python-slugify", "pkg_resources": "setuptools", "distutils": "setuptools",
    "google.protobuf": "protobuf", "google.oauth2": "google-auth", "grpc": "grpcio", "grpc_testing": "grpcio-testing",
    "google.cloud.storage": "google-cloud-storage", "wx": "wxPython", "gi": "PyGObject", "mpl_toolkits": "matplotlib",
    "pylab": "matplotlib", "telegram": "python-telegram-bot", "socks": "PySocks", "Levenshtein": "python-Levenshtein",
    "rest_framework": "djangorestframework", "ruamel": "ruamel.yaml", "ruamel.yaml": "ruamel.yaml",
    "pytest_lazyfixture": "pytest-lazy-fixture", "xdist": "pytest-xdist", "vcr": "vcrpy", "factory": "factory-boy",
    "win32api": "", "win32con": "", "winreg": "", "msvcrt": "", "_winapi": "", "mysql": "mysql-connector-python",
    "psycopg": "psycopg[binary]", "kafka": "kafka-python", "past": "future", "builtins": "", "absl": "absl-py",
    "umap": "umap-learn", "faiss": "faiss-cpu", "discord": "discord.py", "nio": "matrix-nio", "OpenGL": "PyOpenGL",
    "osgeo": "GDAL", "shapefile": "pyshp", "Xlib": "python-xlib", "markdown_it": "markdown-it-py",
    "linkify_it": "linkify-it-py",
}
# fmt: on
