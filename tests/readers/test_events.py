"""The reader of the probe's own events: what is verified, what is not believed, and what gives no verdict."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.errors import InfraError, UsageError
from swelive_plugin.library import score_file
from swelive_plugin.probe.channel import signed
from swelive_plugin.readers import events as reader
from swelive_plugin.readers import read_session
from swelive_plugin.readers.events import read_channel, session_of

INSTANCE = Instance("o__n-1", "o/n", "0" * 40, fail_to_pass=("t.py::f",), pass_to_pass=())


def phases(outcome: str, *, attempt: int = 1) -> list[dict[str, Any]]:
    common = {"e": "phase", "id": "t.py::f", "attempt": attempt}
    return [
        {**common, "when": when, "outcome": outcome if when == "call" else "passed"}
        for when in ("setup", "call", "teardown")
    ]


def record(outcome: str = "failed", *, version: int = 1) -> list[dict[str, Any]]:
    started: list[dict[str, Any]] = [{"e": "session", "v": version, "pytest": "9.0"}, {"e": "start", "id": "t.py::f"}]
    return [*started, *phases(outcome), {"e": "end", "exitstatus": 0, "collected": 1, "failed": 0}]


def unsigned(*events: dict[str, Any]) -> list[bytes]:
    return [json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events]


def signed_lines(*events: dict[str, Any]) -> list[bytes]:
    written: list[bytes] = []
    send = signed(written.append)
    for line in unsigned(*events):
        send(line)
    return written


def scored(tmp_path: Path, lines: list[bytes]) -> Verdict:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(lines))
    return score_file(INSTANCE, path)


def test_signed_file_of_a_passed_run_is_resolved(tmp_path: Path) -> None:
    assert scored(tmp_path, signed_lines(*record("passed"))).status is Status.RESOLVED


@pytest.mark.parametrize("place", [1, 4, -1, None], ids=["start", "middle", "before the end", "end"])
def test_unsigned_lines_in_a_signed_file_are_not_believed(tmp_path: Path, place: int | None) -> None:
    """Defect: three unsigned lines of a second attempt made a failed run resolved."""
    lines = signed_lines(*record("failed"))
    place = len(lines) if place is None else place
    forged = [*lines[:place], *unsigned(*phases("passed", attempt=2)), *lines[place:]]
    verdict = scored(tmp_path, forged)
    assert (verdict.status, verdict.reward) == (Status.TAMPERED, 0.0)
    assert [reason.code for reason in verdict.reasons] == ["foreign_records", "f2p-failed"]
    assert verdict.fail_to_pass[0].outcomes == ("failed",)
    assert "3 lines were not written by the recorder" in " ".join(warning.message for warning in verdict.warnings)


def test_lines_before_the_key_do_not_make_a_signed_file_unsigned(tmp_path: Path) -> None:
    lines = [*unsigned(*phases("passed", attempt=2)), *signed_lines(*record("failed"))]
    verdict = scored(tmp_path, lines)
    assert (verdict.status, verdict.fail_to_pass[0].outcomes) == (Status.TAMPERED, ("failed",))


def test_a_bad_tag_gives_no_verdict_and_names_the_line(tmp_path: Path) -> None:
    lines = signed_lines(*record("failed"))
    lines[4] = lines[4].replace(b'"failed"', b'"passed"')
    with pytest.raises(InfraError, match=r"events\.jsonl, line 5: its tag does not hold: it was changed after"):
        scored(tmp_path, lines)


def test_missing_lines_give_no_verdict_and_name_the_line(tmp_path: Path) -> None:
    lines = signed_lines(*record("failed"))
    with pytest.raises(InfraError, match="line 4: its number is 3, the last one that holds is 1: lines are missing"):
        scored(tmp_path, [*lines[:3], *lines[4:]])


def test_a_missing_first_line_gives_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="its first line, which carries the key, is missing"):
        scored(tmp_path, signed_lines(*record("passed"))[1:])


@pytest.mark.parametrize("key", ["", "zz", "00" * 200, "00" * 15])
def test_a_key_that_is_not_whole_gives_no_verdict(tmp_path: Path, key: str) -> None:
    lines = signed_lines(*record("passed"))
    with pytest.raises(InfraError, match="the key in its first line is not whole"):
        scored(tmp_path, [*unsigned({"e": "key", "key": key}), *lines[1:]])


def test_a_file_cut_in_the_middle_is_not_resolved_and_says_so(tmp_path: Path) -> None:
    whole = b"".join(signed_lines(*record("passed")))
    verdict = scored(tmp_path, [whole[: len(whole) * 2 // 3]])
    assert (verdict.status, verdict.reward) == (Status.CRASHED, 0.0)
    assert "the last line of the record breaks off" in " ".join(warning.message for warning in verdict.warnings)


def test_events_of_another_form_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds events of form 2; this version of swelive reads form 1"):
        scored(tmp_path, signed_lines(*record("passed", version=2)))


def test_what_follows_the_end_of_a_session_is_foreign_and_no_damage(tmp_path: Path) -> None:
    line = unsigned({"e": "x", "n": 99, "k": "0" * 16})
    assert scored(tmp_path, [*signed_lines(*record("passed")), *line]).status is Status.TAMPERED


def test_a_record_that_fills_its_channel_is_truncated_and_says_so(tmp_path: Path) -> None:
    """Defect: `Channel.truncated` was set and never read: the session looked like one that crashed."""
    path = tmp_path / "events.jsonl"
    lines = b"".join(signed_lines(*record("passed"), *({"e": "start", "id": "x" * 1000} for _ in range(1200))))
    path.write_bytes(lines[: 2**20])
    session = session_of(read_channel(path, limit_mib=1))
    assert session.truncated == "it fills its limit of 1 MiB, and what came later is not there"
    assert f"the record was cut: {session.truncated}" in session.notes
    assert session_of(read_channel(path)).truncated == ""


def test_a_flood_of_short_lines_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defect: 32 MiB of short lines held the driver for 200 s and took 433 MiB."""
    monkeypatch.setattr(reader, "FOREIGN_LINES", 1000)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(signed_lines(*record("passed"))) + b"x\n" * 5000)
    read = read_channel(path)
    assert (len(read.foreign), read.foreign_count) == (20, 1000)
    assert read.truncated == "1000 lines in it are no records, and no more is read"
    path.write_bytes(b'{"e":"session"}\n' + b"x\n" * 5000)
    assert read_channel(path).truncated == read.truncated


def test_a_number_of_records_that_no_session_writes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "RECORDS", 100)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(unsigned({"e": "start", "id": "a"}) * 300))
    read = read_channel(path)
    assert (len(read.events), read.truncated) == (100, "it holds 100 records, and no more is read")


def test_a_line_without_end_is_never_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LINE_BYTES", 1000)
    path = tmp_path / "events.jsonl"
    lines = signed_lines(*record("passed"))
    path.write_bytes(b"".join(lines[:3]) + b"y" * 50_000 + b"\n" + b"".join(lines[3:]))
    read = read_channel(path)
    assert (read.foreign, read.foreign_count, read.damaged) == (("y" * 120,), 1, "")
    assert session_of(read).ended


def test_events_of_a_persons_own_pytest_are_taken_without_tags(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(unsigned(*record("passed"))) + b"noise\n")
    session = read_session(path)
    assert (session.tests["t.py::f"].outcome.value, session.foreign_records) == ("passed", 0)


def test_foreign_lines_cost_less_than_records(tmp_path: Path) -> None:
    """Defect: each foreign line was decoded, parsed and kept."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(signed_lines(*record("passed"))) + b"x\n" * 200_000)
    started = time.process_time()
    read_channel(path)
    assert time.process_time() - started < 2
