"""Resolving a recipe with uv: what it asks for, as of the cut-off, with hashes, and what the checkout itself provides.

No registry is asked for a name of the checkout: uv gets an address below the checkout for each of them, and the names
that the checkout can't provide are excluded.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from urllib.parse import quote, unquote, urlsplit

from packaging.utils import canonicalize_name

from swelive_plugin.environments import TESTBED
from swelive_plugin.environments.build import BuildRoom, build_constraints, local_urls
from swelive_plugin.environments.lock import era_options, lock_text, locked_versions
from swelive_plugin.errors import EnvironmentBuildError
from swelive_plugin.recipes.recipe import Recipe

__all__ = ["resolve_lock"]


def resolve_lock(room: BuildRoom, recipe: Recipe) -> str:
    """Return the lock: third parties and build requirements, each with version and hashes, as of the cut-off.

    Raises `EnvironmentBuildError` if they can't be had together.
    """
    project = f"{room.testbed}/{recipe.subdir}".rstrip("/")
    lines = list(recipe.requirements)
    if recipe.install != "path":
        extras = f"[{','.join(recipe.extras)}]" if recipe.extras else ""
        lines.append(f"{recipe.project}{extras} @ file://{quote(project)}" if recipe.project else f"{project}{extras}")
    lines += [f"{room.testbed}/{place}" for place in recipe.beside]
    options: list[str] = []
    if recipe.overrides:
        options += ["--overrides", room.write("overrides.txt", "\n".join(recipe.overrides) + "\n")]
    if recipe.project:
        options += ["--no-emit-package", canonicalize_name(recipe.project)]
    done = _compile(room, recipe, "requirements", lines, options)
    room.must(done, "resolving the packages of the day")
    resolved = (room.work / "requirements.txt").read_text(encoding="utf-8")
    packages, places = _split_local(resolved, room.testbed)
    beside = {place.partition("[")[0] for place in recipe.beside}
    checkout = [place for place in places if place != recipe.subdir and place not in beside]
    build = _resolve_build(room, recipe) if recipe.install != "path" else ""
    release = _resolve_release(room, recipe) if recipe.released_files else ""
    _check_names(recipe, packages)
    return lock_text(recipe, packages, build, release, checkout)


def _compile(room: BuildRoom, recipe: Recipe, name: str, lines: list[str], options: list[str]) -> list[str]:
    """Return the command that resolves ``lines`` into ``<name>.txt``, with the checkout's own names kept apart."""
    constraints = [*recipe.constraints, *(f"{own} @ {url}" for own, url in local_urls(room, recipe).items())]
    excluded = list(recipe.excluded)
    if recipe.project and recipe.install == "path":
        excluded.append(recipe.project)
    argv = [room.uv_program, "pip", "compile", "--no-sources", "--python", str(room.interpreter.path)]
    argv += [room.write(f"{name}.in", "\n".join(lines) + "\n"), "-o", f"{room.workdir}/{name}.txt"]
    argv += ["--generate-hashes", "--no-header", "--no-annotate", "--quiet", *era_options(recipe), *options]
    if constraints:
        argv += ["-c", room.write("constraints.txt", "\n".join(constraints) + "\n")]
    if excluded:
        argv += ["--excludes", room.write("excludes.txt", "\n".join(excluded) + "\n")]
    (room.work / f"{name}.txt").unlink(missing_ok=True)
    return [*argv, *build_constraints(room, recipe)]


def _split_local(resolved: str, testbed: str) -> tuple[str, list[str]]:
    """Return a resolved file without local projects, and the places of those below ``testbed``."""
    packages, places = "", []
    for entry in re.split(r"^(?=\S)", resolved, flags=re.MULTILINE):
        local = re.match(r"(?:-e\s+)?(?:\S+\s*@\s*)?(file://\S+|/\S+)", entry)
        if local is None:
            packages += entry
            continue
        path = unquote(urlsplit(local.group(1)).path)
        if path.startswith(f"{testbed}/"):
            places.append(posixpath.normpath(path.removeprefix(f"{testbed}/")))
    return packages, places


def _check_names(recipe: Recipe, packages: str) -> None:
    """Raise `EnvironmentBuildError` if a name of the checkout was taken from the registry all the same."""
    own = {*recipe.siblings, *recipe.excluded, *([canonicalize_name(recipe.project)] if recipe.project else [])}
    strangers = sorted(own & locked_versions(packages).keys())
    if strangers:
        raise EnvironmentBuildError(
            f"{', '.join(strangers)} of the checkout would come from the registry",
            hint="name its folder in the recipe's [siblings], or the name in `excluded`",
        )


def _resolve_release(room: BuildRoom, recipe: Recipe) -> str:
    """Return the project's own last release before the cut-off, locked.

    Raises `EnvironmentBuildError` if there is none.
    """
    source = room.write("release.in", f"{recipe.project}\n")
    done, _ = room.run(
        [room.uv_program, "pip", "compile", "--no-sources", "--python", str(room.interpreter.path),
         source, "-o", f"{room.workdir}/release.txt", "--no-deps", "--generate-hashes", "--no-header",
         "--no-annotate", "--quiet", *era_options(recipe)],
        what="looking for the project's last release",
    )  # fmt: skip
    if done.exit_status != 0:
        raise EnvironmentBuildError(f"{recipe.project} had no release on {recipe.cutoff[:10]} to take files from")
    return (room.work / "release.txt").read_text(encoding="utf-8")


def _resolve_build(room: BuildRoom, recipe: Recipe) -> str:
    """Return the locked build requirements; what a build back end asks for on top keeps to the cut-off alone."""
    requires = list(recipe.build_requires) or ["setuptools", "wheel"]
    if recipe.build_backend.startswith("mesonpy"):
        requires += ["meson", "ninja"]
    if recipe.build_backend.startswith(("hatchling", "poetry", "setuptools.build_meta:__legacy__")):
        requires += ["editables"] if not recipe.build_backend.startswith("setuptools") else ["setuptools", "wheel"]
    # the project's own name among them: a build tool, whose released one builds it
    alone = replace(recipe, project="", constraints=())
    done, _ = room.run(_compile(room, alone, "build", requires, []), what="resolving the build requirements of the day")
    if done.exit_status != 0:
        return ""
    return (room.work / "build.txt").read_text(encoding="utf-8").replace(f"file://{room.testbed}", f"file://{TESTBED}")
