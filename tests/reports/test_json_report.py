"""The JSON files: what they hold, what upstream readers find in them, and that they are whole or not there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.errors import InfraError, UsageError
from swelive_plugin.files import write_atomically
from swelive_plugin.reports.json_report import (
    Results,
    main_reason,
    read_results,
    read_verdict,
    results_of,
    write_results,
    write_verdict,
)
from swelive_plugin.reports.schemas import FOLDER, schemas
from tests.reports.build import ALL, EMPTY, ENV_ERROR, FOUL, PATCH_FAILED, RESOLVED, TAMPERED, UNRESOLVED


@pytest.mark.parametrize("verdict", ALL, ids=lambda verdict: verdict.instance_id)
def test_a_written_verdict_is_valid_and_reads_back(tmp_path: Path, verdict: Verdict) -> None:
    path = tmp_path / "new" / "verdict.json"
    write_verdict(path, verdict)
    written = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schemas()["verdict.schema.json"]).validate(written)
    assert list(written)[:6] == ["schema_version", "instance_id", "status", "resolved", "reward", "review"]
    assert written["reward"] == verdict.reward
    if verdict is not FOUL:  # its half surrogates can't come back, see below
        assert read_verdict(path) == verdict
    assert read_verdict(path).status is verdict.status


def test_half_surrogates_of_the_graded_code_break_no_report(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 arrive as lone surrogates, which no JSON file can hold."""
    verdict = replace(PATCH_FAILED, reasons=(replace(PATCH_FAILED.reasons[0], evidence="caf\udce9"),))
    write_verdict(tmp_path / "verdict.json", verdict)
    assert read_verdict(tmp_path / "verdict.json").reasons[0].evidence == "caf?"


def test_a_verdict_of_a_newer_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_text('{"instance_id": "a", "status": "resolved", "what_comes_later": 1}', encoding="utf-8")
    assert read_verdict(path) == Verdict("a", Status.RESOLVED)


@pytest.mark.parametrize("text", ["", "[]", '{"instance_id": "a"}', '{"instance_id": "a", "status": "won"}'])
def test_what_is_no_verdict_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "verdict.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"verdict\.json: not a verdict: "):
        read_verdict(path)
    with pytest.raises(UsageError, match=r"missing\.json: can't be read: No such file"):
        read_verdict(tmp_path / "missing.json")


def run() -> Results:
    again = replace(RESOLVED, instance_id="a__b-2", attempt=2)
    return results_of(
        [TAMPERED, again, *(each for each in ALL if each is not TAMPERED)],
        instance_ids=["a__b-1", "z__z-1"],
        dataset="d.jsonl",
        predictions="p.jsonl",
        notes=["a note"],
        duration_s=3.5,
    )


def test_results_count_every_prediction_once() -> None:
    results = run()
    assert results.counts == {
        "empty_patch": 1, "invalid_instance": 0, "env_error": 1, "patch_rejected": 0, "patch_failed": 1, "tampered": 1,
        "timed_out": 0, "crashed": 0, "unresolved": 2, "resolved": 2, "error": 0, "incomplete": 0,
    }  # fmt: skip
    assert sum(results.counts.values()) == len(results.rows) == len(ALL) + 1
    assert results.ids["resolved"] == ("a__b-1", "a__b-2")
    assert results.review_ids == ("a__b-2",)
    assert [(row.instance_id, row.attempt, row.reward) for row in results.rows[:4]] == [
        ("a__b-1", 1, 1.0),
        ("a__b-2", 1, 0.0),
        ("a__b-2", 2, 1.0),
        ("a__b-3", 1, 0.0),
    ]


def test_upstream_keys_hold_the_first_attempt_of_each_instance() -> None:
    """pass@1 and pass@k must not mix: a resolved second attempt resolves nothing there."""
    results = run()
    assert results.schema_version == 2
    assert results.submitted_ids == tuple(f"a__b-{number}" for number in range(1, 8))
    assert results.resolved_ids == results.success_ids == ("a__b-1",)
    assert results.unresolved_ids == results.failure_ids == ("a__b-2", "a__b-3", "a__b-6", "a__b-7")
    assert results.error_ids == results.infra_failure_ids == ("a__b-4",)
    assert results.empty_patch_ids == ("a__b-5",)
    assert results.incomplete_ids == ("z__z-1",)
    assert results.completed_ids == ("a__b-1", "a__b-2", "a__b-3", "a__b-6", "a__b-7")
    assert results.failure_reasons == {"a__b-3": "patch_failed", "a__b-4": "env_error", "a__b-6": "tampered"}
    assert results.total_instances == 8
    parts = results.completed_instances + results.empty_patch_instances + results.error_instances
    assert parts + results.incomplete == results.total_instances
    assert results.submitted == results.success + results.failure + results.error + results.empty_patch


@pytest.mark.parametrize("status", Status)
def test_every_status_has_one_place_among_the_upstream_keys(status: Status) -> None:
    results = results_of([Verdict("a", status)], instance_ids=["a"])
    places = [results.resolved_ids, results.unresolved_ids, results.error_ids, results.empty_patch_ids]
    assert [ids for ids in (*places, results.incomplete_ids) if ids] == [("a",)]


def test_written_results_are_valid_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results(path, run())
    written = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schemas()["results.schema.json"]).validate(written)
    assert written["rows"][1]["reason"] == "t.py::test_a[x: AssertionError: 1 != 2 (t.py:3) (and 1 more)"
    assert read_results(path).counts == run().counts
    write_verdict(path, RESOLVED)
    with pytest.raises(UsageError, match="not the results of a run"):
        read_results(path)


def test_results_of_nothing() -> None:
    results = results_of([])
    assert (results.submitted_instances, results.total_instances, results.rows) == (0, 0, ())


def test_cause_is_the_first_reason() -> None:
    assert main_reason(RESOLVED) == ""
    assert main_reason(ENV_ERROR) == "the project does not install"
    assert main_reason(UNRESOLVED).endswith("(and 1 more)")
    assert main_reason(EMPTY) == ""


def test_shipped_schemas_are_current() -> None:
    """If not: python -m swelive_plugin.reports.schemas"""
    assert {path.name: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")} == schemas()


def test_schemas_refuse_what_is_wrong() -> None:
    for schema in schemas().values():
        jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schemas()["verdict.schema.json"])
    right = {
        "schema_version": 1,
        "instance_id": "a",
        "status": "resolved",
        "resolved": True,
        "reward": 1.0,
        "review": False,
    }
    assert validator.is_valid(right)
    wrongs: list[dict[str, object]] = [
        {"status": "won"},
        {"reward": 0.5},
        {"schema_version": 2},
        {"reasons": [{}]},
        {"instance_id": 1},
    ]
    for wrong in wrongs:
        assert not validator.is_valid({**right, **wrong})


def test_a_write_that_fails_leaves_the_old_file_and_no_part_of_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InfraError, match=r"results\.json: can't be written: No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InfraError, match="can't be written"):
        write_atomically(tmp_path / "file" / "verdict.json", b"")
