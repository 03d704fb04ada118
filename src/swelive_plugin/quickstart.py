"""The embedded example: a small project with a bug, its task row, and what four agents left."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.core.instance import Instance, instance_from_row
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import Status
from swelive_plugin.errors import InfraError
from swelive_plugin.workspace.git import run_git

__all__ = ["EXPECTED", "Quickstart", "build_quickstart"]

# What a right grader says of each prediction.
EXPECTED: dict[str, frozenset[Status]] = {
    "gold": frozenset({Status.RESOLVED}),
    "empty": frozenset({Status.EMPTY_PATCH}),
    "careless": frozenset({Status.UNRESOLVED}),
    "cheating": frozenset({Status.UNRESOLVED, Status.TAMPERED}),
}

# A fixed author and date make the base commit, and with it the environment, the same on every machine.
_WHO = {
    "GIT_AUTHOR_NAME": "Coinpurse",
    "GIT_AUTHOR_EMAIL": "coinpurse@example.invalid",
    "GIT_COMMITTER_NAME": "Coinpurse",
    "GIT_COMMITTER_EMAIL": "coinpurse@example.invalid",
    "GIT_AUTHOR_DATE": "2025-06-01T12:00:00+0000",
    "GIT_COMMITTER_DATE": "2025-06-01T12:00:00+0000",
}


@dataclass(frozen=True)
class Quickstart:
    """The example as the grader takes it: the instance, its predictions, and where its repository is cloned from."""

    instance: Instance
    predictions: tuple[Prediction, ...]
    repo_url: str
    row: Path  # the instance as a dataset file


def source_folder() -> Path:
    """Return the example's files: inside the installed package, or in a source checkout beside it."""
    here = Path(__file__).resolve()
    for folder in (here.parent / "_quickstart", here.parents[2] / "examples" / "quickstart"):
        if (folder / "instance.json").is_file():
            return folder
    raise InfraError("the example is missing from this installation", hint="install pytest-swelive again")


def build_quickstart(folder: Path) -> Quickstart:
    """Make the example's git repository and dataset file in ``folder`` and return them with the predictions."""
    source = source_folder()
    project = folder / "example+coinpurse" / "repo"
    if project.exists():
        shutil.rmtree(project)
    shutil.copytree(source / "project", project, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for path in sorted(project.rglob("*")):  # modes are part of the commit: not those of whoever unpacked us
        path.chmod(0o755 if path.is_dir() else 0o644)
    run_git("init", "--quiet", "--initial-branch=main", str(project))
    run_git("add", "--all", cwd=project)
    run_git("commit", "--quiet", "--message", "Parse and print amounts", cwd=project, env=_WHO)
    commit = run_git("rev-parse", "HEAD", cwd=project).stdout.decode().strip()
    row = json.loads((source / "instance.json").read_text("utf-8"))
    row |= {
        "base_commit": commit,
        "patch": (source / "gold.diff").read_text("utf-8"),
        "test_patch": (source / "test.diff").read_text("utf-8"),
    }
    dataset = folder / "quickstart.jsonl"
    dataset.write_text(json.dumps(row) + os.linesep, "utf-8")
    instance = instance_from_row(row, where="the example")
    predictions = [Prediction(instance.instance_id, instance.patch, model="gold")]
    predictions += [
        Prediction(instance.instance_id, path.read_text("utf-8"), model=path.stem, attempt=number)
        for number, path in enumerate(sorted((source / "predictions").glob("*.diff")), start=2)
    ]
    return Quickstart(instance, tuple(predictions), f"{folder.resolve().as_uri()}/{{owner}}+{{name}}/repo", dataset)
