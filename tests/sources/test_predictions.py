"""Predictions: every public shape is read, and what can't be read is told with file and line."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.errors import PatchError, PredictionsError
from swelive_plugin.reports.json_report import results_of, write_results
from swelive_plugin.sources.predictions import Predictions, load_predictions
from swelive_plugin.workspace.patch import check_patch
from swelive_plugin.workspace.patch_repair import normalise_patch

CASE = Path(__file__).parents[2].parent / "shared" / "cases" / "grading" / "79-predictions-formats" / "input"
ROW = {"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": "diff"}


def instance(instance_id: str, patch: str = "gold diff") -> Instance:
    return Instance(instance_id, "a/b", "0" * 40, patch=patch)


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8", newline="")
    return path


def read(predictions: Predictions) -> list[tuple[str, str, int]]:
    return [(each.instance_id, each.patch, each.attempt) for each in predictions]


SHAPES = {
    "id to entry": {"a__b-1": {"model_patch": "diff"}},
    "id to entry that repeats its id": {"a__b-1": ROW},
    "id to text": {"a__b-1": "diff"},
    "id to several": {"a__b-1": ["diff"]},
    "list": [ROW],
    "one entry": ROW,
}


@pytest.mark.parametrize("name", ["p.json", "p.jsonl", "p.json.gz", "p.jsonl.gz", "p", "p.txt"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_in_every_file_gives_the_same_prediction(tmp_path: Path, shape: str, name: str) -> None:
    data = json.dumps(SHAPES[shape]).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert read(load_predictions(path)) == [("a__b-1", "diff", 1)]


@pytest.mark.parametrize("key", ["patch", "prediction", "diff", "fix_patch", "git_patch"])
def test_aliases_of_model_patch_are_read_and_noted(tmp_path: Path, key: str) -> None:
    path = write(tmp_path / "p.jsonl", {"instance_id": "a__b-1", key: "text"})
    loaded = load_predictions(path)
    assert read(loaded) == [("a__b-1", "text", 1)]
    assert loaded.notes == (f"1 entry: {key!r} read as 'model_patch', first at {path}",)


def test_openhands_keeps_the_patch_one_level_down(tmp_path: Path) -> None:
    path = write(tmp_path / "output.jsonl", {"instance_id": "a__b-1", "test_result": {"git_patch": "text"}})
    loaded = load_predictions(path)
    assert read(loaded) == [("a__b-1", "text", 1)]
    assert "'test_result.git_patch' read as 'model_patch'" in loaded.notes[0]


def test_model_patch_wins_over_its_aliases_also_when_null(tmp_path: Path) -> None:
    """A dataset row that carries a prediction has both: its `patch` is the gold one, never to be graded instead."""
    path = write(tmp_path / "p.json", [{"instance_id": "a__b-1", "patch": "gold", "model_patch": None}])
    (only,) = load_predictions(path)
    assert only.is_empty


def test_dataset_rows_as_predictions_are_pointed_out(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", [{"instance_id": "a__b-1", "patch": "gold", "test_patch": "t"}])
    assert any("rows of a dataset" in note for note in load_predictions(path).notes)


@pytest.mark.parametrize("entry", [None, "", "  \n", {"model_patch": None}, {"model_patch": ""}])
def test_null_and_blank_patches_are_empty_ones(tmp_path: Path, entry: object) -> None:
    (only,) = load_predictions(write(tmp_path / "p.json", {"a__b-1": entry}))
    assert only.is_empty


def test_different_patches_of_one_instance_are_attempts_in_order(tmp_path: Path) -> None:
    lines = [{**ROW, "model_patch": text} for text in ("one", "two", "one", "three")]
    path = write(tmp_path / "p.jsonl", "\n".join(map(json.dumps, lines)))
    loaded = load_predictions(path)
    assert read(loaded) == [("a__b-1", "one", 1), ("a__b-1", "two", 2), ("a__b-1", "three", 3)]
    assert loaded[0].source == f"{path}:1"
    assert loaded[0].duplicates == (f"{path}:3",)
    assert loaded.notes == (f"a__b-1: the same patch stands in several places, graded once: {path}:1, {path}:3",)


def test_an_id_that_is_twice_a_key_loses_no_attempt(tmp_path: Path) -> None:
    """json.loads keeps only the last of two equal keys, without a word."""
    path = write(tmp_path / "p.json", '{"a__b-1": "one", "a__b-1": "two"}')
    assert read(load_predictions(path)) == [("a__b-1", "one", 1), ("a__b-1", "two", 2)]


def test_a_list_of_attempts_per_id(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", {"a__b-1": ["one", {"model_patch": "two", "model": "m"}]})
    loaded = load_predictions(path)
    assert read(loaded) == [("a__b-1", "one", 1), ("a__b-1", "two", 2)]
    assert loaded[1].model == "m"


def test_byte_order_mark_blank_lines_and_crlf_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n\r\n\n")
    assert read(load_predictions(path)) == [("a__b-1", "diff", 1)]


def test_line_separators_inside_a_patch_end_no_line(tmp_path: Path) -> None:
    """str.splitlines() would cut a JSON line at U+2028, which JSON allows unescaped."""
    row = json.dumps({**ROW, "model_patch": "a\u2028b\x0cc"}, ensure_ascii=False)
    path = write(tmp_path / "p.jsonl", f"{row}\n{json.dumps({**ROW, 'instance_id': 'a__b-2'})}\n")
    assert [each.patch for each in load_predictions(path)] == ["a\u2028b\x0cc", "diff"]


@pytest.mark.parametrize(
    "layout", ["a__b-1/patch.diff", "a__b-1/x.patch", "a__b-1.patch", "a__b-1.diff", "a__b-1.pred"]
)
def test_folders_of_patches(tmp_path: Path, layout: str) -> None:
    write(tmp_path / layout, "diff --git a/x b/x\n")
    write(tmp_path / ".hidden" / "y.patch", "no")
    write(tmp_path / "a__b-1" / "log.txt", "no")
    assert read(load_predictions(tmp_path)) == [("a__b-1", "diff --git a/x b/x\n", 1)]


def test_attempts_of_a_folder_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        write(tmp_path / "a__b-1" / f"patch_{number}.diff", f"diff {number}")
    assert [each.patch for each in load_predictions(tmp_path)] == ["diff 1", "diff 2", "diff 10"]


@pytest.mark.parametrize("name", ["preds.json", "predictions.jsonl", "output.jsonl"])
def test_a_folder_with_collected_predictions(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, ROW)
    assert read(load_predictions(tmp_path)) == [("a__b-1", "diff", 1)]


def test_patch_files_keep_every_byte(tmp_path: Path) -> None:
    """A patch for a latin-1 file with CRLF line ends is neither UTF-8 nor may its line ends change."""
    raw = b"diff --git a/x b/x\r\n+caf\xe9\r\n"
    (tmp_path / "a__b-1.patch").write_bytes(raw)
    (only,) = load_predictions(tmp_path)
    assert only.patch.encode("utf-8", "surrogateescape") == raw
    assert len(only.sha256) == 64


def test_gold_and_empty() -> None:
    tasks = [instance("a__b-1"), instance("a__b-2", patch="other")]
    assert read(load_predictions("gold", instances=tasks)) == [("a__b-1", "gold diff", 1), ("a__b-2", "other", 1)]
    assert all(each.is_empty for each in load_predictions("empty", instances=tasks))
    with pytest.raises(PredictionsError, match="gold: this word stands for patches"):
        load_predictions("gold")


def test_a_file_called_gold_is_reached_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "gold", ROW)
    assert read(load_predictions("./gold", instances=[instance("a__b-1")])) == [("a__b-1", "diff", 1)]
    assert read(load_predictions(Path("gold"))) == [("a__b-1", "diff", 1)]


@pytest.mark.parametrize("text", [json.dumps(ROW), "diff --git a/x b/x\n"])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    (only,) = load_predictions("-", instances=[instance("a__b-1")])
    assert (only.instance_id, only.source) == ("a__b-1", "<stdin>")


def test_a_lone_patch_is_for_the_instance_that_names_tell_or_the_only_one(tmp_path: Path) -> None:
    one, two = instance("a__b-1"), instance("a__b-2")
    path = write(tmp_path / "a__b-2" / "fix.patch", "diff --git a/x b/x\n")
    assert load_predictions(path, instances=[one, two])[0].instance_id == "a__b-2"
    assert load_predictions(path, instances=[one])[0].instance_id == "a__b-1"
    named = write(tmp_path / "a__b-1.diff", "diff --git a/x b/x\n")
    assert load_predictions(named)[0].instance_id == "a__b-1"
    stray = write(tmp_path / "stray.diff", "diff --git a/x b/x\n")
    with pytest.raises(PredictionsError, match="which instance is this patch for"):
        load_predictions(stray, instances=[one, two])


def test_unknown_ids_are_listed_and_the_others_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", {"a__b-1": "one", "A__b-2": "two", "zzz": "three"})
    loaded = load_predictions(path, instances=[instance("a__b-1"), instance("a__b-2")])
    assert read(loaded) == [("a__b-1", "one", 1)]
    assert loaded.unknown == ("A__b-2", "zzz")
    assert loaded.notes == (
        "A__b-2 is not in the dataset, not graded (did you mean a__b-2, a__b-1?)",
        "zzz is not in the dataset, not graded",
    )


def test_many_unknown_ids_are_one_note(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", {f"x__y-{number}": "diff" for number in range(300)})
    loaded = load_predictions(path, instances=[instance("a__b-1")])
    assert len(loaded.unknown) == 300
    assert loaded.notes == (
        "300 instances are not in the dataset, not graded: "
        + ", ".join(f"x__y-{number}" for number in range(10))
        + " and more",
    )


def test_a_run_folder_gives_its_patches_back_in_the_order_of_attempts(tmp_path: Path) -> None:
    for name in ("patch.diff", "attempt-2/patch.diff", "attempt-10/patch.diff"):
        write(tmp_path / "a__b-1" / name, f"diff {name}")
    write(tmp_path / "results.json", {})
    assert [(each.attempt, each.patch) for each in load_predictions(tmp_path)] == [
        (1, "diff patch.diff"),
        (2, "diff attempt-2/patch.diff"),
        (3, "diff attempt-10/patch.diff"),
    ]


def test_patches_that_an_earlier_run_left_in_a_run_folder_are_no_predictions(tmp_path: Path) -> None:
    """Defect: attempts that results.json does not have were graded again as if they were of the run."""
    for name in ("patch.diff", "attempt-2/patch.diff", "attempt-3/patch.diff"):
        write(tmp_path / "a__b-1" / name, f"diff {name}")
    write_results(
        tmp_path / "results.json", results_of([Verdict("a__b-1", Status.RESOLVED, attempt=n) for n in (1, 3)])
    )
    assert [each.patch for each in load_predictions(tmp_path)] == ["diff patch.diff", "diff attempt-3/patch.diff"]


BAD = {
    "cut line": (json.dumps(ROW) + '\n{"instance_id": "a__b-1", "mod', r"p\.jsonl:2: not JSON: .* in the middle of it"),
    "no patch": ('{"instance_id": "a__b-1", "model": "m"}', r"p\.jsonl: the entry has no 'model_patch' \(its keys are"),
    "no id": ('{"model_patch": "diff"}', r"p\.jsonl: the entry has no 'instance_id'"),
    "number as id": ('{"instance_id": 7, "model_patch": "diff"}', "instance_id is a number, not text"),
    "patch is a list": ('{"instance_id": "a", "model_patch": [""]}', "model_patch is a list, not the text of a patch"),
    "number for an entry": ('{"a__b-1": 5}', r"a__b-1: a number, where \{instance_id, model_patch\} is due"),
    "text alone": ('"diff"', r"p\.jsonl: text, where"),
    "other id inside": ('{"a__b-1": {"instance_id": "a__b-2", "patch": ""}}', "'a__b-2', its place says 'a__b-1'"),
    "key twice": ('{"instance_id": "a", "model_patch": "1", "model_patch": "2"}', "'model_patch' more than once"),
    "too deep": ("[" * 100_000, "nested too deeply"),
    "empty file": (" \n", "the file is empty"),
    "empty list": ("[]", "no predictions in it"),
    "empty object": ("{}", "the entry has no 'instance_id'"),
    "blank id": ('{"": "diff"}', "the instance id is empty"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_read_is_told_with_its_place(tmp_path: Path, kind: str) -> None:
    text, message = BAD[kind]
    with pytest.raises(PredictionsError, match=message):
        load_predictions(write(tmp_path / "p.jsonl", text))


UNREADABLE = {
    "list": ({"instance_id": "a__b-2", "model_patch": ["diff"]}, "model_patch is a list, not the text of a patch"),
    "number": ({"instance_id": "a__b-2", "model_patch": 5}, "model_patch is a number, not the text of a patch"),
    "none": ({"instance_id": "a__b-2", "model": "m"}, "the entry has no 'model_patch'"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_entry_without_a_readable_patch_refuses_no_other_and_is_judged(tmp_path: Path, kind: str) -> None:
    entry, message = UNREADABLE[kind]
    path = write(tmp_path / "p.jsonl", f"{json.dumps(ROW)}\n{json.dumps(entry)}\n")
    loaded = load_predictions(path)
    assert read(loaded) == [("a__b-1", "diff", 1), ("a__b-2", f"{path}:2: {message}\n", 1)]
    assert loaded.notes[0].startswith(f"judged patch_failed: {path}:2: {message}")
    with pytest.raises(PatchError, match=f"no diff in the patch; it begins: .*{message}"):
        normalise_patch(loaded[1].patch, tmp_path)


def test_number_for_an_entry_and_a_repeated_key_are_judged_too(tmp_path: Path) -> None:
    text = '{"a__b-1": "diff", "a__b-2": 5, "a__b-3": {"model_patch": "1", "model_patch": "2"}}'
    loaded = load_predictions(write(tmp_path / "p.json", text))
    assert [each.instance_id for each in loaded] == ["a__b-1", "a__b-2", "a__b-3"]
    assert "a__b-2: a number, where" in loaded[1].patch
    assert "has the key 'model_patch' more than once" in loaded[2].patch


def test_half_an_emoji_refuses_no_run_and_fails_its_own_prediction(tmp_path: Path) -> None:
    """A truncated answer: no file can hold such text, and the whole run was refused."""
    rows = [{**ROW, "model_patch": "diff --git a/x b/x\n+\ud83d"}, {**ROW, "instance_id": "a__b-2"}]
    loaded = load_predictions(write(tmp_path / "p.jsonl", "\n".join(map(json.dumps, rows))))
    assert [each.instance_id for each in loaded] == ["a__b-1", "a__b-2"]
    assert loaded[0].patch.encode("utf-8", "surrogateescape") == b"diff --git a/x b/x\n+\xed\xa0\xbd"
    assert len(loaded[0].sha256) == 64
    with pytest.raises(PatchError, match="half of a surrogate pair at its line 2"):
        check_patch(loaded[0].patch, tmp_path)


def test_patch_that_is_not_utf_8_is_not_taken_for_half_an_emoji(tmp_path: Path) -> None:
    """These bytes are Korean in EUC-KR, and would be half a pair in UTF-8."""
    patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-\xed\xa1\xb0\n+\xb0\xa1\n"
    (tmp_path / "a__b-1.patch").write_bytes(patch)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "x").write_bytes(b"\xed\xa1\xb0\n")
    (only,) = load_predictions(tmp_path / "a__b-1.patch")
    check_patch(only.patch, tmp_path / "tree")


@pytest.mark.parametrize("text", ["\ud83d", "m\udce9"])
def test_model_name_that_no_file_can_hold(text: str) -> None:
    assert Prediction("a__b-1", "", text).model.encode("utf-8").startswith((b"\\ud83d", b"m\\udce9"))


def test_a_cut_document_names_the_line_where_it_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", '{\n "a__b-1": "diff",\n "a__b')
    with pytest.raises(PredictionsError, match=r"p\.json:3: not JSON: .*\(the file ends in the middle of it"):
        load_predictions(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "the file is empty (write one prediction on each line)"), ("\n", "is empty"), ("x\n", "JSON")],
)
def test_no_rest_is_promised_where_there_is_none(tmp_path: Path, text: str, told: str) -> None:
    """Defect: an empty file said that --keep-going grades the rest."""
    with pytest.raises(PredictionsError) as refused:
        load_predictions(write(tmp_path / "p.jsonl", text))
    assert told in str(refused.value)
    assert "the rest" not in str(refused.value)


def test_keep_going_leaves_out_what_is_broken_and_says_so(tmp_path: Path) -> None:
    lines = [json.dumps(ROW), "no json", '{"instance_id": 7, "model_patch": ""}', '{"instance_id": "a__b-2", "model_pa']
    path = write(tmp_path / "p.jsonl", "\n".join(lines))
    with pytest.raises(PredictionsError, match=r"p\.jsonl:2: not JSON.*--keep-going grades the rest"):
        load_predictions(path)
    loaded = load_predictions(path, keep_going=True)
    assert read(loaded) == [("a__b-1", "diff", 1)]
    assert [note.split(": ")[1].rsplit(":", 1)[-1] for note in loaded.notes] == ["2", "4", "3"]
    assert all(note.startswith("left out: ") for note in loaded.notes)


def test_keep_going_leaves_out_a_broken_file_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a__b-1.pred", '{"instance_id": "a__b-1", "model_p')
    write(tmp_path / "a__b-2.pred", {"model_patch": "diff"})
    with pytest.raises(PredictionsError, match=r"a__b-1\.pred:1: not JSON"):
        load_predictions(tmp_path)
    loaded = load_predictions(tmp_path, keep_going=True)
    assert read(loaded) == [("a__b-2", "diff", 1)]
    assert len(loaded.notes) == 1


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(json.dumps(ROW).encode() + b'\n{"instance_id": "\xff"}')
    with pytest.raises(PredictionsError, match=r"p\.jsonl:2: not UTF-8: byte 0xff"):
        load_predictions(path)
    path.write_bytes(json.dumps(ROW).encode("utf-16"))
    with pytest.raises(PredictionsError, match="UTF-16 text"):
        load_predictions(path)


def test_missing_files_name_what_is_close(tmp_path: Path) -> None:
    write(tmp_path / "preds.json", ROW)
    with pytest.raises(PredictionsError, match=r"pred\.json: no such file or folder \(did you mean preds\.json\?\)"):
        load_predictions(tmp_path / "pred.json")
    with pytest.raises(
        PredictionsError, match=r"nope\.json: no such file or folder \(give a file"
    ):  # not alike but for the suffix
        load_predictions(tmp_path / "nope.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PredictionsError, match="no predictions in this folder"):
        load_predictions(tmp_path / "empty")


@pytest.mark.skipif(not CASE.is_dir(), reason="the shared cases are not beside this repository")
@pytest.mark.parametrize(
    "name",
    [
        "ok.jsonl",
        "blank_line.jsonl",
        "bom.jsonl",
        "dict.json",
        "dict_no_id.json",
        "dict_str.json",
        "single.json",
        "no_patch_key.jsonl",
        "preds_dir",
    ],
)
def test_case_79_single_prediction(name: str) -> None:
    assert read(load_predictions(CASE / name)) == [("a__b-1", "diff", 1)]


@pytest.mark.skipif(not CASE.is_dir(), reason="the shared cases are not beside this repository")
def test_case_79_others() -> None:
    assert read(load_predictions(CASE / "dup.jsonl")) == [("a__b-1", "diff", 1), ("a__b-1", "other", 2)]
    assert load_predictions(CASE / "null_patch.jsonl")[0].is_empty
    with pytest.raises(PredictionsError, match=r"cut_last_line\.jsonl:2"):
        load_predictions(CASE / "cut_last_line.jsonl")
    assert len(load_predictions(CASE / "cut_last_line.jsonl", keep_going=True)) == 1
    folder = load_predictions(CASE / "preds_dir")
    assert len(folder[0].duplicates) == 1
    assert "graded once" in folder.notes[0]
