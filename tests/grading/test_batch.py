"""Many grades into one run folder: resuming, attempts, duplicates, interruption."""

from __future__ import annotations

import concurrent.futures
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.grading import batch, pool
from swelive_plugin.grading.batch import grade_all
from swelive_plugin.grading.settings import Settings
from tests.host import Project


class Counting:
    """Stands in for `grade`: counts its calls and answers at once."""

    def __init__(self, status: Status = Status.RESOLVED) -> None:
        self.calls: list[tuple[str, int]] = []
        self.status = status
        self.lock = threading.Lock()

    def __call__(
        self,
        instance: object,
        prediction: Prediction,
        settings: Settings,
        *,
        folder: Path,
        progress: Callable[[str], None],
    ) -> Verdict:
        with self.lock:
            self.calls.append((prediction.instance_id, prediction.attempt))
        progress("tests")
        return Verdict(
            prediction.instance_id,
            self.status,
            attempt=prediction.attempt,
            patch_sha256=prediction.sha256,
            instance_sha256=PROJECT[0].instance.sha256,
            options_key=settings.key,
        )


PROJECT: list[Project] = []


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch, project: Project) -> Counting:
    PROJECT[:] = [project]
    fake = Counting()
    monkeypatch.setattr(batch, "grade", fake)
    return fake


def some(project: Project, *patches: str) -> list[Prediction]:
    return [Prediction(project.instance.instance_id, text, attempt=n) for n, text in enumerate(patches, start=1)]


def run(
    project: Project, settings: Settings, predictions: list[Prediction], out: Path, **more: object
) -> list[Verdict]:
    instances = {project.instance.instance_id: project.instance}
    return grade_all(instances, predictions, settings, out=out, **more)  # type: ignore[arg-type]


def test_each_attempt_has_a_folder_of_its_own(
    counting: Counting, project: Project, settings: Settings, tmp_path: Path
) -> None:
    verdicts = run(project, settings, some(project, "a", "b"), tmp_path / "run")
    assert [verdict.attempt for verdict in verdicts] == [1, 2]
    assert (tmp_path / "run" / "o__proj-1" / "verdict.json").exists()
    assert (tmp_path / "run" / "o__proj-1" / "attempt-2" / "verdict.json").exists()


def test_what_is_finished_is_kept_for_the_same_patch_instance_and_options(
    counting: Counting, project: Project, settings: Settings, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run(project, settings, some(project, "a", "b"), out)
    again = run(project, settings, some(project, "a", "b"), out)
    assert len(counting.calls) == 2
    assert [verdict.status for verdict in again] == [Status.RESOLVED, Status.RESOLVED]
    run(project, settings, some(project, "a", "changed"), out)
    assert counting.calls[2:] == [("o__proj-1", 2)]
    run(project, replace(settings, timeout_s=5.0), some(project, "a", "changed"), out)
    assert len(counting.calls) == 5
    run(project, replace(settings, timeout_s=5.0), some(project, "a", "changed"), out, redo=True)
    assert len(counting.calls) == 7


def test_an_error_of_ours_is_graded_again(
    counting: Counting, project: Project, settings: Settings, tmp_path: Path
) -> None:
    counting.status = Status.ERROR
    run(project, settings, some(project, "a"), tmp_path / "run")
    counting.status = Status.RESOLVED
    assert run(project, settings, some(project, "a"), tmp_path / "run")[0].status is Status.RESOLVED
    assert len(counting.calls) == 2


def test_a_damaged_verdict_is_graded_again(
    counting: Counting, project: Project, settings: Settings, tmp_path: Path
) -> None:
    run(project, settings, some(project, "a"), tmp_path / "run")
    (tmp_path / "run" / "o__proj-1" / "verdict.json").write_text('{"instance_id": "o__pr')
    run(project, settings, some(project, "a"), tmp_path / "run")
    assert len(counting.calls) == 2


def test_two_runs_into_one_folder_are_refused(
    counting: Counting, project: Project, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    with FileLock(tmp_path / "run" / ".lock"), pytest.raises(UsageError, match="another run is writing"):
        run(project, settings, some(project, "a"), tmp_path / "run")
    assert counting.calls == []


def test_unknown_instances_are_refused_before_any_work(
    counting: Counting, project: Project, settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="no such instance: x__y-1"):
        run(project, settings, [Prediction("x__y-1", "a")], tmp_path / "run")
    assert counting.calls == []


def test_ctrl_c_stops_what_runs_and_keeps_what_is_finished(
    project: Project, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running session is killed, the finished verdict stays, and the next run goes on from there."""
    real_wait = concurrent.futures.wait
    seen: list[Verdict] = []

    class Watch:
        def step(self, instance_id: str, step: str, *, attempt: int = 1) -> None:
            if attempt == 2 and step.startswith("tests"):
                running.set()

        def finished(self, verdict: Verdict) -> None:
            seen.append(verdict)

    running = threading.Event()

    def wait_then_interrupt(*args: object, **kwargs: object) -> object:
        if not seen or running.is_set():
            return real_wait(*args, **kwargs)  # type: ignore[arg-type]
        assert running.wait(60)
        raise KeyboardInterrupt

    hangs = project.instance.patch.replace("+    return a + b", "+    import time; time.sleep(600)")
    # the third is still queued when the second is interrupted: it must not be waited for
    predictions = some(project, project.instance.patch, hangs, hangs + "\n")
    monkeypatch.setattr(pool, "wait", wait_then_interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(project, settings, predictions, tmp_path / "run", observer=Watch())
    monkeypatch.setattr(pool, "wait", real_wait)
    assert [(verdict.attempt, verdict.status) for verdict in seen][:1] == [(1, Status.RESOLVED)]
    kept = json.loads((tmp_path / "run" / "o__proj-1" / "verdict.json").read_text())
    assert kept["status"] == "resolved"
    left = json.loads((tmp_path / "run" / "o__proj-1" / "attempt-2" / "verdict.json").read_text())
    assert left["status"] == "incomplete"  # and so graded again
    fixed = some(project, project.instance.patch, project.instance.patch + "\n")
    again = run(project, settings, fixed, tmp_path / "run")
    assert [verdict.status for verdict in again] == [Status.RESOLVED, Status.RESOLVED]


def test_grades_run_in_several_threads(project: Project, settings: Settings, tmp_path: Path) -> None:
    patches = [project.instance.patch + "\n" * n for n in range(4)]
    verdicts = run(project, settings, some(project, *patches), tmp_path / "run", workers=3)
    assert [verdict.status for verdict in verdicts] == [Status.RESOLVED] * 4


def test_what_an_earlier_run_left_does_not_tell_of_this_one(
    counting: Counting, project: Project, settings: Settings, tmp_path: Path
) -> None:
    """Defect: the last run's results and session stood beside the verdict on a patch that ran none."""
    out = tmp_path / "run"
    run(project, settings, some(project, "a"), out)
    (out / "results.json").write_text("{}")
    (out / "o__proj-1" / "events.jsonl").write_text("{}")
    run(project, settings, some(project, "other"), out)
    assert not (out / "results.json").exists()
    assert not (out / "o__proj-1" / "events.jsonl").exists()
    assert (out / "o__proj-1" / "verdict.json").exists()


def test_instances_may_be_a_sequence_and_the_folder_text(
    counting: Counting, project: Project, settings: Settings, tmp_path: Path
) -> None:
    verdicts = grade_all([project.instance], some(project, "a"), settings, out=str(tmp_path / "run"))
    assert [str(verdict.status) for verdict in verdicts] == ["resolved"]
    assert (tmp_path / "run" / "o__proj-1" / "verdict.json").is_file()
