"""Checkouts: the files of one commit, farms of hard links to them, and folders that go away whatever is in them."""

# Trees have thousands of files, and pathlib costs more than the system calls.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH115, PTH123, PTH211

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.errors import InfraError
from swelive_plugin.workspace.git import failure, run_git

__all__ = ["Exported", "export_tree", "link_tree", "remove_tree", "scan_tree", "settle_written"]

_BRANCH = "main"
_TIMEOUT_S = 1800.0
_FICLONE = 0x40049409  # linux/fs.h: share the blocks of another file, copy on write
_DEEP = 100
# 2 January 2000: not the time of what was built, so that no bytecode of the file before it fits
_WRITTEN = 946_771_200


@dataclass(frozen=True)
class Exported:
    """What of a commit could not be written out: submodules, and files that the mirror itself does not have."""

    submodules: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def export_tree(mirror: Path, commit: str, dest: Path, *, with_git: bool = False) -> Exported:
    """Write the files of ``commit`` into ``dest`` just as git checks them out; return what is not there.

    Attributes that change line ends count, ``export-ignore`` does not (it is for archives). Submodules stay empty
    folders; a mirror made with a size filter may lack large files, which are left out. ``with_git`` adds a ``.git`` of
    its own on a branch named ``main``: no object, ref, tag or reflog in it is newer than the commit, there is no
    remote, and nothing is shared with the mirror. Raises `InfraError`.
    """
    dest.mkdir(parents=True, exist_ok=True)
    commit = _line(run_git("rev-parse", "--verify", f"{commit}^{{commit}}", git_dir=mirror).stdout)
    if with_git:
        _own_repository(mirror, commit, dest)
        missing = _check_out(dest / ".git", commit, dest, {})
        if missing:  # git wrote no index; without one, all other files would be new
            run_git("read-tree", commit, cwd=dest, git_dir=dest / ".git")
            names = os.fsencode("\0".join(missing))
            run_git("update-index", "--skip-worktree", "-z", "--stdin", cwd=dest, git_dir=dest / ".git", input=names)
    else:
        with tempfile.TemporaryDirectory(prefix="swelive-index-") as folder:
            missing = _check_out(mirror, commit, dest, {"GIT_INDEX_FILE": str(Path(folder) / "index")})
    return Exported(_submodules(mirror, commit), missing)


_UNREADABLE = re.compile(rb"error: unable to read sha1 file of (.+) \([0-9a-f]{40,64}\)")


def _check_out(git_dir: Path, commit: str, dest: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Write the commit's files and return those that the repository has no content for."""
    done = run_git(
        "-c", "core.bare=false", "--work-tree=.", "read-tree", "--reset", "-u", commit,
        cwd=dest, git_dir=git_dir.absolute(), env=env, timeout_s=_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return ()
    lines = done.stderr.splitlines()
    missing = [match for line in lines if (match := _UNREADABLE.fullmatch(line))]
    if not missing or len(missing) != sum(line.startswith(b"error:") for line in lines):
        raise failure(f"can't check out {commit}", done)
    return tuple(os.fsdecode(match[1]) for match in missing)


def _submodules(mirror: Path, commit: str) -> tuple[str, ...]:
    listing = run_git("ls-tree", "-r", "-z", commit, git_dir=mirror).stdout
    links = (entry for entry in listing.split(b"\0") if entry.startswith(b"160000 "))
    return tuple(os.fsdecode(entry.partition(b"\t")[2]) for entry in links)


def _line(output: bytes) -> str:
    return output.decode("ascii", "replace").strip()


def _own_repository(mirror: Path, commit: str, dest: Path) -> None:
    git_dir = dest / ".git"
    run_git("init", "--quiet", "--template=", f"--initial-branch={_BRANCH}", cwd=dest)
    if (mirror / "shallow").is_file():
        shutil.copyfile(mirror / "shallow", git_dir / "shallow")
    tags = _tags_before(mirror, commit)
    wanted = "".join(f"{item}\n" for item in [commit, *(objectname for _, objectname in tags)])
    pack = git_dir / "objects" / "pack" / "pack"
    pack.parent.mkdir(parents=True, exist_ok=True)
    # A mirror may lack old, large blobs (a partial clone): what it has not, the checkout does without.
    run_git(
        "-c", "pack.compression=1", "pack-objects", "--revs", "--quiet", "--window=0", "--delta-base-offset",
        "--missing=allow-any", str(pack.absolute()), git_dir=mirror, input=wanted.encode("ascii"), timeout_s=_TIMEOUT_S,
    )  # fmt: skip
    refs = [f"create refs/heads/{_BRANCH}\0{commit}\0", *(f"create {name}\0{value}\0" for name, value in tags)]
    run_git(
        "-c", "core.logAllRefUpdates=false", "update-ref", "--stdin", "-z",
        cwd=dest, git_dir=git_dir, input=os.fsencode("".join(refs)),
    )  # fmt: skip


def _tags_before(mirror: Path, commit: str) -> list[tuple[str, str]]:
    """Return (ref, object) of each tag on the commit's own history, but no tag object that was written after it."""
    then = int(_line(run_git("show", "-s", "--format=%ct", commit, git_dir=mirror).stdout))
    listing = run_git(
        "for-each-ref", f"--merged={commit}", "--format=%(objectname) %(taggerdate:unix) %(refname)", "refs/tags",
        git_dir=mirror,
    ).stdout  # fmt: skip
    tags = []
    for line in os.fsdecode(listing).splitlines():
        objectname, tagged, name = line.split(" ", 2)
        if not tagged or int(tagged) <= then:
            tags.append((name, objectname))
    return tags


def link_tree(source: Path, dest: Path, *, private: bool = False) -> str:
    """Fill ``dest`` with the tree ``source``; return how: ``hardlink`` or ``copy``.

    Files are hard links where that is possible (same file system), else clones that share blocks, else copies.
    A hard link shares its content: who changes a file in place changes both, so what untrusted code may write to needs
    ``private``, which never links. Symbolic links stay what they are and are never followed; sockets, pipes and
    devices are left out. Folders of ``dest`` are writable for their owner. Raises `InfraError`.
    """
    how = "copy" if private else "hardlink"
    try:
        dest.mkdir(parents=True, exist_ok=True)
        pending = [(str(source), str(dest))]
        while pending:
            folder, copy = pending.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    target = f"{copy}/{entry.name}"
                    if entry.is_symlink():
                        os.symlink(os.readlink(entry.path), target)
                    elif entry.is_dir(follow_symlinks=False):
                        os.mkdir(target)
                        os.chmod(target, stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode) | 0o700)
                        pending.append((entry.path, target))
                    elif entry.is_file(follow_symlinks=False):
                        how = _link_file(entry.path, target, how)
    except OSError as error:
        raise InfraError(f"can't set out a tree in {dest}: {error}", hint="is the disk full?") from error
    return how


def _link_file(source: str, target: str, how: str) -> str:
    if how == "hardlink":
        try:
            os.link(source, target)
        except OSError:  # another file system, one without links, too many links, somebody else's file
            how = "copy"
        else:
            return how
    copy_file(source, target)
    return how


def scan_tree(root: Path) -> dict[str, os.stat_result]:
    """Return each file and symbolic link below ``root`` by its relative path; its own ``.git`` left out."""
    files: dict[str, os.stat_result] = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(root / folder if folder else root) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if path != ".git":
                        pending.append(path)
                else:
                    files[path] = entry.stat(follow_symlinks=False)
    return files


def copy_file(source: str, target: str) -> None:
    """Copy one regular file with its mode and times; blocks are shared where the file system can."""
    with open(source, "rb") as old, open(target, "xb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            shutil.copyfileobj(old, new)
    shutil.copystat(source, target)


def remove_tree(path: Path) -> None:
    """Remove ``path`` and all that is below it; nothing happens if it is not there.

    Copes with folders that nobody may read, with paths longer than the system takes, and never follows a symbolic
    link. Raises `InfraError` when something does not let itself be removed (another user's files).
    """
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if stat.S_ISDIR(mode):
            _remove_folder(str(path))
        else:
            os.unlink(path)
    except OSError as error:
        raise InfraError(f"can't remove {path}: {error.strerror}", hint="it may belong to another user") from error


def _remove_folder(root: str) -> None:
    visited: list[str] = []
    pending = [(root, 0)]
    serial = 0
    with suppress(OSError):
        os.chmod(root, 0o700)
    while pending:
        folder, depth = pending.pop()
        visited.append(folder)
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                child = entry.path
                with suppress(OSError):
                    os.chmod(child, 0o700)
                if depth >= _DEEP:  # lift it up, else its path gets longer than the system takes
                    while os.path.lexists(child := f"{root}/.deep{serial}"):
                        serial += 1
                    os.rename(entry.path, child)
                pending.append((child, 0 if child != entry.path else depth + 1))
    for folder in reversed(visited):
        os.rmdir(folder)


def settle_written(tree: Path, paths: Iterable[str]) -> None:
    """Give files that were written into a tree one time: code must not tell by it what was written when, and so a
    mutated test from the real one. Files that the tree shares with the prepared one keep theirs.
    """
    for path in paths:
        with suppress(OSError):
            if os.lstat(tree / path).st_nlink == 1:
                os.utime(tree / path, (_WRITTEN, _WRITTEN), follow_symlinks=False)
