"""Generated files that come from the project's own last release."""

from __future__ import annotations

from pathlib import Path

from swelive_plugin.environments.released import take_released_files


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_only_what_git_ignores_and_the_tree_lacks_is_taken(tmp_path: Path) -> None:
    root = put(
        tmp_path / "tree",
        {
            ".gitignore": "*.dat\n/src/pkg/_made.py\n*.so\n",
            "src/pkg/__init__.py": "",
            "src/pkg/kept.dat": "of the tree",
        },
    )
    release = put(
        tmp_path / "release",
        {
            "pkg/__init__.py": "of the release",
            "pkg/data/a b.dat": "table",
            "pkg/kept.dat": "of the release",
            "pkg/_made.py": "made",
            "pkg/_fast.so": "binary",
            "pkg/removed_since.py": "old source",
            "pkg-1.dist-info/RECORD": "",
            "other/x.dat": "not of this project",
        },
    )
    taken = take_released_files(release, root, work=tmp_path)
    assert sorted(taken) == ["src/pkg/_made.py", "src/pkg/data/a b.dat"]
    assert (root / "src/pkg/data/a b.dat").read_text() == "table"
    assert (root / "src/pkg/kept.dat").read_text() == "of the tree"
    assert not (root / "src/pkg/removed_since.py").exists()


def test_a_release_with_nothing_more_changes_nothing(tmp_path: Path) -> None:
    root = put(tmp_path / "tree", {"pkg/__init__.py": ""})
    release = put(tmp_path / "release", {"pkg/__init__.py": "", "pkg/more.txt": ""})
    assert take_released_files(release, root, work=tmp_path) == []
