"""The store: whole or not there, shared, removable, safe under parallel use and kills."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from swelive_plugin.environments.store import Choice, Store, atomic_write, make_read_only, settle_times
from swelive_plugin.errors import InfraError
from swelive_plugin.recipes.recipe import Recipe


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "environments")
    made.open()
    return made


def fill(store: Store, key: str, *, used: float, text: str = "x" * 9000) -> Path:
    folder = store.begin(key)
    (folder / "venv" / "lib").mkdir(parents=True)
    (folder / "venv" / "lib" / "shared.py").write_text("y" * 50_000)
    (folder / "venv" / "lib" / "own.py").write_text(text)
    settle_times(folder / "venv")
    store.share(folder / "venv", paths_count=False)
    make_read_only(folder / "venv")
    store.finish(key, {"repo": "o/n", "commit": "c" * 40, "python_version": "3.11.7", "recipe_name": "full"})
    os.utime(folder / "environment.json", (used, used))
    return folder


def test_what_was_not_finished_is_not_there_and_is_built_anew(store: Store) -> None:
    folder = store.begin("k")
    (folder / "half").write_text("")
    assert store.read("k") is None
    assert list(store.begin("k").iterdir()) == []
    store.finish("k", {"a": 1})
    assert store.read("k") == {"a": 1}


def test_a_broken_marker_is_as_if_nothing_were_there(store: Store) -> None:
    folder = store.begin("k")
    (folder / "environment.json").write_text('{"a": ')
    assert store.read("k") is None


def test_equal_files_of_two_environments_take_room_once(store: Store) -> None:
    one, two = fill(store, "a", used=1, text="one" * 4000), fill(store, "b", used=2, text="two" * 4000)
    shared = [folder / "venv" / "lib" / "shared.py" for folder in (one, two)]
    assert shared[0].samefile(shared[1])
    assert not (one / "venv" / "lib" / "own.py").samefile(two / "venv" / "lib" / "own.py")
    kept = {item.key: item for item in store.kept()}
    assert kept["a"].own_mib < kept["a"].total_mib


def test_a_program_and_a_text_with_one_content_stay_two(store: Store) -> None:
    folder = store.begin("k")
    (folder / "a").write_text("same")
    (folder / "b").write_text("same")
    (folder / "b").chmod(0o755)
    settle_times(folder)
    store.share(folder, paths_count=False)
    assert not (folder / "a").samefile(folder / "b")
    assert os.access(folder / "b", os.X_OK)


def test_two_equal_files_of_one_tree_stay_two(store: Store) -> None:
    """A test may ask whether two files of its tree are the same one."""
    folder = store.begin("k")
    for name in ("a", "b"):
        (folder / name).write_text("same")
    settle_times(folder)
    store.share(folder, paths_count=True)
    assert not (folder / "a").samefile(folder / "b")


def test_bytecode_is_told_by_its_source_since_compiling_twice_gives_two_files(store: Store) -> None:
    made = []
    for key in ("a", "b"):
        folder = store.begin(key)
        (folder / "lib" / "__pycache__").mkdir(parents=True)
        (folder / "lib" / "m.py").write_text("V = 1\n" * 100)
        (folder / "lib" / "n.py").write_text(f"V = {key!r}\n" * 100)
        settle_times(folder)
        store.lend_bytecode(folder, tag="cpython-311", seen_at="/venv")
        lent = sorted(path.name for path in (folder / "lib" / "__pycache__").iterdir())
        assert lent == ([] if key == "a" else ["m.cpython-311.pyc"])
        for name in {"m.cpython-311.pyc", "n.cpython-311.pyc"} - set(lent):
            (folder / "lib" / "__pycache__" / name).write_text(f"compiled for {key}")
        store.share(folder, paths_count=False, seen_at="/venv")
        made.append(folder / "lib" / "__pycache__")
    assert (made[1] / "m.cpython-311.pyc").read_text() == "compiled for a"
    assert (made[1] / "n.cpython-311.pyc").read_text() == "compiled for b"


def test_gc_removes_the_longest_unused_first_and_keeps_the_decision(store: Store) -> None:
    fill(store, "old", used=1, text="o" * 400_000)
    fill(store, "new", used=2, text="n" * 400_000)
    store.choose("o/n", "c" * 40, "fixed", Choice(Recipe(), "lock", "old"))
    removed = store.gc(max_size_mib=store.size_mib() - 0.1)
    assert [item.key for item in removed] == ["old"]
    assert store.read("new") is not None
    choice = store.chosen("o/n", "c" * 40, "fixed")
    assert choice is not None
    assert (choice.lock_text, choice.key) == ("lock", "old")
    assert [item.key for item in store.gc(max_size_mib=0)] == ["new"]
    assert not list((store.root / "files").glob("*/*"))


def test_gc_measures_the_whole_store_once_and_counts_what_is_shared(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each removal used to walk all environments again: minutes for a store of some dozens."""
    for used, key in enumerate(("a", "b", "c"), 1):
        fill(store, key, used=used, text="s" * 400_000)
    size, walks = store.size_mib(), []
    real = Store.size_mib

    def counted(self: Store) -> float:
        walks.append(1)
        return real(self)

    monkeypatch.setattr(Store, "size_mib", counted)
    assert 0.4 < size < 0.8  # one file of 0.4 MB for all three
    assert [item.key for item in store.gc(max_size_mib=0.3)] == ["a", "b", "c"]  # only the last one frees it
    assert walks == [1]


def test_gc_sweeps_what_killed_builds_left_but_not_what_is_being_built(store: Store) -> None:
    store.begin("killed")
    store.begin("building")
    with store.lock("building"):
        store.gc(max_size_mib=1e9)
        assert (store.built / "building").exists()
    assert not (store.built / "killed").exists()


def test_a_lock_is_waited_for_and_a_long_wait_is_told(store: Store) -> None:
    entered = threading.Event()
    leave = threading.Event()

    def hold() -> None:
        with store.lock("k"):
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    assert entered.wait(10)
    with pytest.raises(InfraError, match="another process has been building k"), store.lock("k", timeout_s=0.05):
        pytest.fail("two held one lock")
    leave.set()
    other.join()
    with store.lock("k", timeout_s=1):
        pass


def test_a_store_of_another_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    root = tmp_path / "environments"
    root.mkdir()
    (root / "store.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(InfraError, match="made by another version") as caught:
        Store(root).open()
    assert "--cache" in caught.value.hint


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_broken_store_marker_is_our_error(tmp_path: Path, text: str) -> None:
    root = tmp_path / "environments"
    root.mkdir()
    (root / "store.json").write_text(text)
    with pytest.raises(InfraError):
        Store(root).open()


def test_a_decision_survives_and_a_half_written_one_is_built_again(store: Store) -> None:
    store.choose("o/n", "a" * 40, "fixed", Choice(Recipe(python="3.9"), "lock", "key"))
    found = store.chosen("o/n", "a" * 40, "fixed")
    assert found is not None
    assert (found.recipe.python, found.lock_text, found.key) == ("3.9", "lock", "key")
    assert store.chosen("o/n", "a" * 40, "host") is None
    (store.choice_folder("o/n", "a" * 40, "fixed") / "recipe.toml").write_text("broken =")
    assert store.chosen("o/n", "a" * 40, "fixed") is None


def test_names_of_repositories_can_not_leave_the_store(store: Store) -> None:
    assert store.choice_folder("../../evil", "a", "fixed").parent == store.root / "chosen"


def test_writing_is_whole_readable_by_others_and_a_full_disk_is_told(tmp_path: Path) -> None:
    atomic_write(tmp_path / "f", "text")
    assert (tmp_path / "f").read_text() == "text"
    assert (tmp_path / "f").stat().st_mode & 0o444 == 0o444
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    with pytest.raises(InfraError, match="can't be written"):
        atomic_write(tmp_path / "gone" / "f", "text")


def test_settled_files_agree_on_their_time(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    settle_times(tmp_path)
    assert (tmp_path / "a").stat().st_mtime < time.time() - 86400
