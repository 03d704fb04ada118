"""Instances: every public form of a dataset gives the same rows, and what is broken is told with its place."""

from __future__ import annotations

import gzip
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets  # type: ignore[import-untyped]  # it ships no types
import pytest

from swelive_plugin.errors import DatasetError, UsageError
from swelive_plugin.sources.instances import load_instances
from tests.sources.hub import stand_in_hub

OFFICIAL = Path(__file__).parents[2].parent / "shared" / "data" / "live-official.jsonl.gz"


def row(instance_id: str = "a__b-1", **more: Any) -> dict[str, Any]:
    made = {
        "instance_id": instance_id,
        "repo": "a/b",
        "base_commit": "0123456789abcdef0123456789abcdef01234567",
        "patch": "diff",
        "test_patch": "diff",
        "FAIL_TO_PASS": ["t.py::test_x[a", "t.py::test_y"],
        "PASS_TO_PASS": ["t.py::test_z"],
        "created_at": "2024-11-26T16:33:06Z",
    }
    return {**made, **more}


def lines(*rows: object) -> str:
    return "".join(json.dumps(each) + "\n" for each in rows)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def table(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_list(list(rows)).to_parquet(str(path))
    return path


TWO = [row("a__b-1"), row("a__b-2", created_at="2025-01-31T23:59:59Z")]
FORMS = {
    "d.jsonl": lines(*TWO),
    "d.json": json.dumps(TWO),
    "lines.json": lines(*TWO),
    "document.jsonl": json.dumps(TWO, indent=1),
    "by_id.json": json.dumps({each["instance_id"]: each for each in TWO}),
    "id_as_key_only.json": json.dumps(
        {each["instance_id"]: {k: v for k, v in each.items() if k != "instance_id"} for each in TWO}
    ),
    "marked.jsonl": "\ufeff" + lines(*TWO).replace("\n", "\r\n\r\n"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_file_gives_the_same_instances(tmp_path: Path, name: str, packed: bool) -> None:
    path = write(tmp_path / name, FORMS[name])
    if packed:
        path = path.with_name(f"{name}.gz")
        path.write_bytes(gzip.compress(FORMS[name].encode()))
    loaded = load_instances(str(path))
    assert [each.instance_id for each in loaded] == ["a__b-1", "a__b-2"]
    assert loaded[0].fail_to_pass == ("t.py::test_x[a", "t.py::test_y")
    assert loaded.source == str(path)
    assert loaded.left_out == ()


def test_parquet_gives_lists_and_times(tmp_path: Path) -> None:
    loaded = load_instances(table(tmp_path / "d.parquet", *TWO))
    assert [each.instance_id for each in loaded] == ["a__b-1", "a__b-2"]
    assert loaded[0].fail_to_pass == ("t.py::test_x[a", "t.py::test_y")
    assert loaded[1].created_at is not None
    assert loaded[1].created_at.isoformat() == "2025-01-31T23:59:59+00:00"


def test_one_row_alone_is_a_dataset(tmp_path: Path) -> None:
    assert len(load_instances(write(tmp_path / "one.json", json.dumps(row(), indent=2)))) == 1


def test_a_folder_that_holds_one_dataset(tmp_path: Path) -> None:
    write(tmp_path / "README.md", "words")
    write(tmp_path / "d.jsonl", lines(*TWO))
    assert len(load_instances(tmp_path)) == 2
    write(tmp_path / "e.jsonl", lines(*TWO))
    with pytest.raises(DatasetError, match=r"which dataset\? The folder holds d\.jsonl, e\.jsonl"):
        load_instances(tmp_path)


def test_a_folder_without_a_dataset(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no dataset in this folder"):
        load_instances(tmp_path)


def test_a_folder_laid_out_like_a_dataset_repository_has_splits(tmp_path: Path) -> None:
    """`datasets` itself reads it: the very call that a hub name makes, without the hub."""
    table(tmp_path / "data" / "lite-00000-of-00001.parquet", TWO[0])
    table(tmp_path / "data" / "full-00000-of-00001.parquet", *TWO)
    write(
        tmp_path / "README.md",
        "---\nconfigs:\n- config_name: default\n  data_files:\n"
        "  - {split: lite, path: data/lite-*}\n  - {split: full, path: data/full-*}\n---\n",
    )
    assert [each.instance_id for each in load_instances(tmp_path, split="lite")] == ["a__b-1"]
    full = load_instances(tmp_path, split="full")
    assert len(full) == 2
    assert full.source == f"{tmp_path}[full]"
    with pytest.raises(DatasetError, match=r"which split\? \(it has full, lite\)"):
        load_instances(tmp_path)
    with pytest.raises(DatasetError, match=r"can't be loaded: .*nosuch"):
        load_instances(tmp_path, split="nosuch")


def test_a_dataset_saved_to_disk(tmp_path: Path) -> None:
    saved = datasets.DatasetDict({"lite": datasets.Dataset.from_list(TWO)})
    saved.save_to_disk(str(tmp_path / "d"))
    assert len(load_instances(tmp_path / "d")) == 2
    assert len(load_instances(tmp_path / "d", split="lite")) == 2
    with pytest.raises(DatasetError, match=r"no split full \(it has lite\)"):
        load_instances(tmp_path / "d", split="full")
    saved["lite"].save_to_disk(str(tmp_path / "plain"))
    assert len(load_instances(tmp_path / "plain")) == 2


def test_a_hub_name_asks_datasets_for_its_split(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, str | None]] = []
    levels: set[int] = set()
    before = logging.getLogger("huggingface_hub").level

    def load_dataset(name: str, *, split: str | None = None) -> object:
        asked.append((name, split))
        levels.add(logging.getLogger("huggingface_hub").level)
        one = datasets.Dataset.from_list(TWO)
        return one if split else datasets.DatasetDict({"test": one})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    assert load_instances().source == "SWE-bench-Live/SWE-bench-Live[lite]"
    assert load_instances(split="full").source == "SWE-bench-Live/SWE-bench-Live[full]"
    assert load_instances("SWE-bench/SWE-bench_Verified").source == "SWE-bench/SWE-bench_Verified[test]"
    assert asked == [
        ("SWE-bench-Live/SWE-bench-Live", "lite"),
        ("SWE-bench-Live/SWE-bench-Live", "full"),
        ("SWE-bench/SWE-bench_Verified", None),
    ]
    assert levels == {logging.CRITICAL}  # its "Retrying in 1s" lines are no part of a library that prints nothing
    assert logging.getLogger("huggingface_hub").level == before


def load_apart(folder: Path, arguments: str, **env: str) -> str:
    """Load in a process of its own, for `datasets` reads the hub's address once, when it is imported."""
    code = (
        "from swelive_plugin.errors import DatasetError\n"
        "from swelive_plugin.sources.instances import load_instances\n"
        f"try:\n    print(load_instances({arguments}))\nexcept DatasetError as error:\n    print(error)\n"
    )
    env = {"HF_HOME": str(folder / "hf"), "HOME": str(folder), "PATH": "", "NO_PROXY": "127.0.0.1", **env}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""  # no progress bar, no warning: the library prints nothing
    return done.stdout


def test_a_hub_serves_a_dataset_by_name(tmp_path: Path) -> None:
    files = {
        "README.md": b"---\nconfigs:\n- config_name: default\n  data_files:\n"
        b"  - {split: lite, path: data/lite.jsonl}\n  - {split: full, path: data/full.jsonl}\n---\n",
        "data/lite.jsonl": lines(TWO[0]).encode(),
        "data/full.jsonl": lines(*TWO).encode(),
    }
    with stand_in_hub("some/dataset", files) as address:
        full = load_apart(tmp_path, "'some/dataset', split='full'", HF_ENDPOINT=address)
        unsaid = load_apart(tmp_path, "'some/dataset'", HF_ENDPOINT=address)
        wrong = load_apart(tmp_path, "'some/dataset', split='test'", HF_ENDPOINT=address)
        other = load_apart(tmp_path, "'other/dataset'", HF_ENDPOINT=address)
    assert full.count("instance_id='a__b-") == 2
    assert full.endswith("source='some/dataset[full]')\n")
    assert unsaid == "some/dataset: which split? (it has full, lite)\n"
    assert wrong.startswith("some/dataset: the dataset can't be loaded: Unknown split")
    assert other.startswith("other/dataset: the dataset can't be loaded: ")


def test_a_hub_that_does_not_answer_is_one_clear_line(tmp_path: Path) -> None:
    told = load_apart(tmp_path, "'some/dataset'", HF_HUB_OFFLINE="1")
    assert told.startswith("some/dataset: the dataset can't be loaded: ")
    assert told.endswith("or give a file: .jsonl, .json or .parquet)\n")
    assert told.count("\n") == 1


def test_ids_pick_rows_in_the_dataset_s_order_and_leave_others_unchecked(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", lines({"instance_id": "a__b-0"}, *TWO))
    assert [each.instance_id for each in load_instances(path, ids=["a__b-2", "a__b-1"])] == ["a__b-1", "a__b-2"]
    with pytest.raises(DatasetError, match=r"d\.jsonl:1: the row has no 'repo'"):
        load_instances(path)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["A__B-1"], r"no instance A__B-1 \(did you mean a__b-1, a__b-2\?\)"),
        (["zzzz", "a__b-1"], r"no instance zzzz \(it holds 2, such as a__b-1\)"),
        (list("qrstuvw"), r"no instances q, r, s, t, u and 2 more"),
    ],
)
def test_unknown_ids_are_told_with_near_misses(tmp_path: Path, wanted: list[str], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        load_instances(write(tmp_path / "d.jsonl", lines(*TWO)), ids=wanted)


def test_months_are_inclusive_and_rows_without_a_date_are_left_out(tmp_path: Path) -> None:
    undated = row("a__b-3")
    del undated["created_at"]
    path = write(tmp_path / "d.jsonl", lines(*TWO, undated))

    def ids(**months: str) -> list[str]:
        return [each.instance_id for each in load_instances(path, **months)]

    assert ids() == ["a__b-1", "a__b-2", "a__b-3"]
    assert ids(start_month="2024-11", end_month="2024-11") == ["a__b-1"]
    assert ids(start_month="2024-12") == ["a__b-2"]
    assert ids(end_month="2025-01") == ["a__b-1", "a__b-2"]
    assert ids(start_month="2025-02") == []
    assert load_instances(path, start_month="2024-01").left_out == ("a__b-3",)
    assert load_instances(path).left_out == ()


@pytest.mark.parametrize("month", ["2024", "2024-13", "2024-1", "24-01", "2024-01-01", ""])
def test_a_month_that_is_none(tmp_path: Path, month: str) -> None:
    with pytest.raises(UsageError, match="is not a month"):
        load_instances(write(tmp_path / "d.jsonl", lines(*TWO)), start_month=month)


def test_months_in_the_wrong_order(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no month lies between 2025-02 and 2025-01"):
        load_instances(write(tmp_path / "d.jsonl", lines(*TWO)), start_month="2025-02", end_month="2025-01")


BAD = {
    "not JSON": (lines(row()) + "\nnope\n", r"d\.jsonl:3: not JSON: Expecting value at column 1"),
    "cut": (lines(row()) + '{"instance_id": "a', r"d\.jsonl:2: not JSON: .*\(the file ends in the middle"),
    "no id": (lines({"repo": "a/b"}), r"d\.jsonl: the row has no 'instance_id'"),
    "no commit": (lines(row(), {"instance_id": "x", "repo": "a/b"}), r"d\.jsonl:2: the row has no 'base_commit'"),
    "twice": (lines(row(), row()), r"d\.jsonl:2: a__b-1 appears twice, first at .*d\.jsonl:1"),
    "a list in a line": (lines(row(), [1]), r"d\.jsonl:2: a list, where a row \(an object\) is due"),
    "key twice": ('{"instance_id": "a__b-1", "instance_id": "a__b-2"}', "the key 'instance_id' more than once"),
    "other id inside": (lines({"a__b-2": row()}), "a__b-2: the row's own instance_id is 'a__b-1'"),
    "empty": ("\n", "the file is empty"),
    "no rows": ("[]", "no instances in it"),
    "too deep": ("[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_read_is_told_with_its_place(tmp_path: Path, kind: str) -> None:
    text, message = BAD[kind]
    with pytest.raises(DatasetError, match=message):
        load_instances(write(tmp_path / "d.jsonl", text))


def test_files_that_are_not_what_their_names_say(tmp_path: Path) -> None:
    whole = gzip.compress(lines(row()).encode())
    for name, data, message in (
        ("cut.jsonl.gz", whole[:-9], "the gzip file is cut off or damaged"),
        ("plain.jsonl.gz", b"{}", "not a gzip file"),
        ("bytes.jsonl", b'{"a": 1}\n\xff', r"bytes\.jsonl:2: not UTF-8"),
        ("d.parquet", b"no parquet", "not a parquet file"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DatasetError, match=message):
            load_instances(tmp_path / name)


def test_gzip_without_its_suffix_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_bytes(gzip.compress(lines(row()).encode()))
    assert len(load_instances(tmp_path / "d.jsonl")) == 1


def test_missing_files_name_what_is_close(tmp_path: Path) -> None:
    write(tmp_path / "tasks.jsonl", lines(row()))
    with pytest.raises(DatasetError, match=r"task\.jsonl: no such file or folder \(did you mean tasks\.jsonl\?\)"):
        load_instances(str(tmp_path / "task.jsonl"))
    with pytest.raises(DatasetError, match="no such file"):
        load_instances("folder/missing.jsonl")  # two parts, yet no hub name


def test_a_file_has_no_splits(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="one file has no split 'lite'"):
        load_instances(write(tmp_path / "d.jsonl", lines(row())), split="lite")


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the shared data are not beside this repository")
def test_official_rows_load() -> None:
    loaded = load_instances(OFFICIAL)
    assert len(loaded) == 14
    assert all(each.fail_to_pass for each in loaded)
    assert len(load_instances(OFFICIAL, start_month="2000-01").left_out) == 2


def test_datasets_is_imported_only_for_what_needs_it(tmp_path: Path) -> None:
    """Importing `datasets` takes a second, more than most grades of a small instance."""
    write(tmp_path / "d.jsonl", lines(row()))
    code = (
        "import sys; from swelive_plugin.sources.instances import load_instances; load_instances('d.jsonl');"
        "print([name for name in ('datasets', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "created",
    ["2025-03-01T12:00:00Z", 1740830400, 1740830400.0, "1740830400000", *(1740830400 * 10**n for n in (3, 6, 9))],
)
def test_date_in_any_public_form(tmp_path: Path, created: object) -> None:
    """Defect: milliseconds, which `Dataset.to_json` writes, gave "year 57134 is out of range"."""
    (only,) = load_instances(write(tmp_path / "d.jsonl", lines(row(created_at=created))))
    assert only.created_at is not None
    assert only.created_at.isoformat() == "2025-03-01T12:00:00+00:00"


@pytest.mark.parametrize("created", [1e40, float("nan"), float("inf"), "soon", "9" * 400, True, []])
def test_date_that_is_none(tmp_path: Path, created: object) -> None:
    with pytest.raises(DatasetError, match=r"d\.jsonl(:1)? \(a__b-1\): created_at .* date"):
        load_instances(write(tmp_path / "d.jsonl", lines(row(created_at=created))))


PREDICTIONS = {
    "rows": lines({"instance_id": "a__b-1", "model_patch": "diff --git a/x b/x\n"}),
    "list": json.dumps([{"instance_id": "a__b-1", "model_patch": ""}]),
    "id to entry": json.dumps({"a__b-1": {"model_patch": "diff --git a/x b/x\n"}}),
    "id to text": json.dumps({"a__b-1": "diff --git a/x b/x\n"}),
}


@pytest.mark.parametrize("shape", PREDICTIONS)
@pytest.mark.parametrize("ids", [None, ["a__b-1"]])
def test_predictions_in_place_of_a_dataset_are_said_to_be_swapped(
    tmp_path: Path, shape: str, ids: list[str] | None
) -> None:
    if shape == "id to text" and ids:
        pytest.skip("no row has an id")
    with pytest.raises(DatasetError) as refused:
        load_instances(write(tmp_path / "p.json", PREDICTIONS[shape]), ids=ids)
    assert "a prediction, where a task row is due (are -d (dataset) and -p (predictions) swapped?)" in str(
        refused.value
    )
    assert "\n" not in str(refused.value)


def test_patches_and_words_in_place_of_a_dataset_are_said_to_be_swapped(tmp_path: Path) -> None:
    write(tmp_path / "run" / "a__b-1" / "x.patch", "diff")
    for given in (tmp_path / "run" / "a__b-1" / "x.patch", tmp_path / "run", "gold"):
        with pytest.raises(DatasetError, match="swapped"):
            load_instances(given)
