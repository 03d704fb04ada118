"""Prints how many gold patches the scan of words flags, and for how many it makes the mutation control run.

    python -m benchmarks.flags ROWS.jsonl.gz…

``unknown`` scans each patch as if gold were not known, as a measure for other honest patches: what gold itself says is
never flagged where gold is known.
"""

from __future__ import annotations

import argparse

from swelive_plugin import load_instances
from swelive_plugin.grading.words import scan_patch


def main() -> None:
    """Print one line a dataset, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+")
    parser.add_argument("--verbose", action="store_true", help="name what was found")
    options = parser.parse_args()
    print(f"{'':34}{'gold patches':>14}{'flagged':>10}{'unknown':>10}{'looks':>10}")
    total = [0, 0, 0, 0]
    for name in options.rows:
        counts = [0, 0, 0, 0]
        for row in load_instances(name):
            more = {"hidden": row.test_patch, "told": row.problem_statement}
            found = scan_patch(row.patch, known=row.patch, **more)
            unknown = scan_patch(row.patch, **more)
            counts[0] += 1
            counts[1] += any(finding.severity == "flag" for finding in found)
            counts[2] += any(finding.severity == "flag" for finding in unknown)
            counts[3] += any(finding.severity == "look" for finding in found)
            for finding in unknown if options.verbose else ():
                print(f"  {finding.severity:5} {row.instance_id}: {finding.message} ({finding.file}:{finding.line})")
        print(f"{name[-32:]:34}{counts[0]:14}{counts[1]:10}{counts[2]:10}{counts[3]:10}")
        total = [one + other for one, other in zip(total, counts, strict=True)]
    print(f"{'all':34}{total[0]:14}{total[1]:10}{total[2]:10}{total[3]:10}")


if __name__ == "__main__":
    main()
