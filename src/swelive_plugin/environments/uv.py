"""uv: where its program is, and what of the user's own set-up it needs inside the sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.errors import MissingProgram
from swelive_plugin.sandbox import Mount, Sandbox

__all__ = ["Uv", "find_uv", "mounts_and_variables"]

# What decides where packages come from, and how the network is reached, is the user's and must keep working in a build.
_KEPT = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT", "NETRC", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
"ALL_PROXY", "HTTP_PROXY",
         "HTTPS_PROXY", "NO_PROXY", "all_proxy", "http_proxy", "https_proxy", "no_proxy")  # fmt: skip
# What would change which interpreter, target or versions a build uses is ours.
_OURS = ("UV_PYTHON", "UV_PROJECT", "UV_EXCLUDE_NEWER", "UV_OFFLINE", "UV_CACHE_DIR", "UV_NO_CACHE", "UV_SYSTEM",
"UV_BREAK", "UV_TARGET",
         "UV_PREFIX", "UV_WORKING", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_BUILD_CONSTRAINT", "UV_RESOLUTION",
         "UV_PRERELEASE", "UV_LINK_MODE",
         "UV_COMPILE", "UV_NO_BUILD", "UV_NO_BINARY", "UV_ENV_FILE", "UV_INTERNAL", "UV_REQUIRE_HASHES",
         "UV_NO_SOURCES", "UV_CUSTOM")  # fmt: skip
_FILES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "UV_CONFIG_FILE")
_SYSTEM = ("/usr", "/bin", "/lib", "/etc/ssl/certs", "/etc/pki/tls/certs")


@dataclass(frozen=True)
class Uv:
    """uv's program and its cache folder on this machine."""

    program: Path
    cache: Path


def find_uv(environ: Mapping[str, str] | None = None) -> Uv:
    """Return the uv of this machine: the wheel's own, else the one on PATH. Raises `MissingProgram`."""
    env = dict(os.environ if environ is None else environ)
    program: str | None
    try:
        import uv

        program = uv.find_uv_bin()
    except (ImportError, FileNotFoundError):
        program = shutil.which("uv", path=env.get("PATH"))
    if program is None:
        raise MissingProgram("uv is not installed", hint="pip install uv")
    try:
        done = subprocess.run(
            [program, "cache", "dir"], capture_output=True, text=True, check=True, timeout=60, env=env
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingProgram(
            f"uv at {program} does not answer: {error}", hint="pip install --force-reinstall uv"
        ) from error
    return Uv(Path(program), Path(done.stdout.strip()))


def mounts_and_variables(
    uv: Uv, sandbox: Sandbox, *, offline: bool, environ: Mapping[str, str] | None = None
) -> tuple[list[Mount], dict[str, str]]:
    """Return the mounts and variables with which uv works in the sandbox as it does for the user outside.

    The variable ``SWELIVE_UV`` names the program as the command sees it. HOME stays private: the user's uv.toml and
    netrc
    are mounted one by one, read-only.
    """
    host = dict(os.environ if environ is None else environ)
    uv.cache.mkdir(parents=True, exist_ok=True)
    program = Mount(uv.program.resolve(), "/opt/swelive/uv", "ro")
    cache = Mount(uv.cache, "/opt/swelive/uv-cache", "rw")
    mounts = [program, cache]
    env = {name: value for name, value in host.items() if _is_users(name)}
    env |= {
        "SWELIVE_UV": sandbox.inside(program), "UV_CACHE_DIR": sandbox.inside(cache), "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1", "UV_LINK_MODE": "copy", "UV_CONCURRENT_BUILDS": "2",
    }  # fmt: skip
    if offline:
        env["UV_OFFLINE"] = "1"
    home = Path(host.get("HOME", "/nonexistent"))
    config = Path(host.get("XDG_CONFIG_HOME") or home / ".config") / "uv"
    if config.is_dir():
        mount = Mount(config, "/opt/swelive/config/uv", "ro")
        mounts.append(mount)
        env["XDG_CONFIG_HOME"] = str(Path(sandbox.inside(mount)).parent)
    if Path("/etc/uv").is_dir():
        mounts.append(Mount(Path("/etc/uv"), "/etc/uv", "ro"))
    netrc = Path(host.get("NETRC") or home / ".netrc")
    if netrc.is_file():
        mount = Mount(netrc, "/opt/swelive/netrc", "ro")
        mounts.append(mount)
        env["NETRC"] = sandbox.inside(mount)
    for name in _FILES:
        path = Path(env.get(name, ""))
        if (
            env.get(name)
            and path.is_absolute()
            and path.exists()
            and not any(path.is_relative_to(top) for top in _SYSTEM)
        ):
            mounts.append(Mount(path, str(path), "ro"))
    return list({mount.target: mount for mount in mounts}.values()), env


def _is_users(name: str) -> bool:
    if name in _KEPT:
        return True
    return name.startswith("UV_") and not name.startswith(_OURS)
