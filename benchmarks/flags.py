"""Prints how many gold patches the scans flag, and for how many they make the mutation control run.

    python -m benchmarks.flags ROWS.jsonl.gz… [--repo-url TEMPLATE --cache FOLDER]

``unknown`` scans each patch as if gold were not known, as a measure for other honest patches: what gold itself says is
never flagged where gold is known. ``looks`` are those of the patch's words; with ``--repo-url`` those of whole files
are counted too, where the repository and the commit can be had and the patch applies to its Python files.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from swelive_plugin import Instance, load_instances
from swelive_plugin.errors import SweliveError
from swelive_plugin.grading.tree import python_sources
from swelive_plugin.integrity.patch_scan import scan_patch
from swelive_plugin.integrity.source_scan import scan_sources
from swelive_plugin.workspace.git import run_git
from swelive_plugin.workspace.mirror import ensure_mirror, repo_url
from swelive_plugin.workspace.patch import touched_paths

HEADS = ("gold patches", "flagged", "unknown", "looks")


def looked_at(row: Instance, template: str, cache: Path) -> bool:
    """Return whether a patch changes what tests judge with; ``False`` where its files can't be had."""
    try:
        mirror = ensure_mirror(row.repo, row.base_commit, url=repo_url(template, row.repo), cache=cache)
        paths = sorted({path for change in touched_paths(row.patch) for path in change.paths if path.endswith(".py")})
        with tempfile.TemporaryDirectory() as name:
            base, tree = Path(name, "base"), Path(name, "tree")
            for path in paths:
                shown = run_git("show", f"{row.base_commit}:{path}", git_dir=mirror, check=False)
                for folder in (base, tree) if shown.returncode == 0 else ():
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (folder / path).write_bytes(shown.stdout)
            tree.mkdir(exist_ok=True)
            only = [f"--include={path}" for path in paths]
            run_git("apply", *only, "-", cwd=tree, input=row.patch.encode("utf-8", "surrogateescape"))
            return bool(scan_sources(python_sources(base, tree, paths)))
    except SweliveError as error:
        print(f"  {row.instance_id}: files not looked at: {str(error)[:80]}")
        return False


def main() -> None:
    """Print one line a dataset, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+")
    parser.add_argument("--repo-url", default="")
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--verbose", action="store_true", help="name what was found")
    options = parser.parse_args()
    print(f"{'':34}" + "".join(f"{head:>14}" for head in HEADS))
    total = [0, 0, 0, 0]
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.rows:
            counts = [0, 0, 0, 0]
            for row in load_instances(name):
                more = {"hidden": row.test_patch, "issue": row.problem_statement}
                found = scan_patch(row.patch, known=row.patch, **more)
                unknown = scan_patch(row.patch, **more)
                look = any(finding.severity == "suspicious" for finding in found)
                if options.repo_url and not look:
                    look = looked_at(row, options.repo_url, options.cache or Path(temporary))
                counts[0] += 1
                counts[1] += any(finding.severity == "flag" for finding in found)
                counts[2] += any(finding.severity == "flag" for finding in unknown)
                counts[3] += look
                for finding in unknown if options.verbose else ():
                    print(
                        f"  {finding.severity:5} {row.instance_id}: {finding.message} ({finding.file}:{finding.line})"
                    )
            print(f"{name[-32:]:34}" + "".join(f"{count:14}" for count in counts))
            total = [one + other for one, other in zip(total, counts, strict=True)]
    print(f"{'all':34}" + "".join(f"{count:14}" for count in total))


if __name__ == "__main__":
    main()
