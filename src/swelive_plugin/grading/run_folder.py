"""A run folder: what is finished stays, and a run that is started again goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.grading.settings import Settings
from swelive_plugin.reports.json_report import read_verdict, write_verdict

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["RunFolder"]

UNFINISHED = frozenset({Status.ERROR, Status.INCOMPLETE})


class RunFolder:
    """``DIR/<id>/`` per prediction (``DIR/<id>/attempt-N/`` from the second attempt on), ``DIR/results.json`` for all.

    Used as a context manager it is locked: two runs into one folder at once would overwrite each other.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path / ".lock")

    def __enter__(self) -> Self:
        """Lock the folder. Raises `UsageError` if another run holds it, or if it can't be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(
                f"another run is writing into {self.path}", hint="wait for it, or give another folder with -o"
            ) from None
        except OSError as error:
            raise UsageError(f"{self.path} can't be written: {error.strerror}", hint="give another folder") from error
        return self

    def __exit__(self, *_: object) -> None:
        """Unlock the folder."""
        self._lock.release()

    def folder_of(self, prediction: Prediction) -> Path:
        """Return where the report of this prediction lies."""
        folder = self.path / prediction.instance_id
        return folder if prediction.attempt == 1 else folder / f"attempt-{prediction.attempt}"

    def finished(self, instance: Instance, prediction: Prediction, settings: Settings) -> Verdict | None:
        """Return the verdict that is there for the same patch, instance and options, or ``None``."""
        path = self.folder_of(prediction) / "verdict.json"
        try:
            verdict = read_verdict(path) if path.exists() else None
        except UsageError:  # cut short or from another version: graded again
            verdict = None
        if verdict is None or verdict.status in UNFINISHED:
            return None
        same = (
            verdict.patch_sha256 == prediction.sha256
            and verdict.instance_sha256 == instance.sha256
            and verdict.options_key == settings.key
        )
        return verdict if same else None

    def save(self, prediction: Prediction, verdict: Verdict) -> None:
        """Write ``verdict.json``, whole or not at all."""
        write_verdict(self.folder_of(prediction) / "verdict.json", verdict)
