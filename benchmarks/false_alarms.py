"""How often honest patches raise an alarm: the verdicts of gold patches, counted.

    swelive grade -d ROWS -p gold -o RUN …
    python -m benchmarks.false_alarms RUN…

Reads every ``verdict.json`` below the run folders; prints the totals and each verdict that is not plainly ``resolved``.
Exits 1 if none was judged, if one was called ``tampered``, or if more than 2 % of those that were judged are flagged.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

JUDGED = ("resolved", "unresolved", "tampered")
MOST_FLAGGED = 0.02  # the share that may be flagged


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    given = parser.parse_args()
    verdicts = [json.loads(path.read_text("utf-8")) for run in given.runs for path in sorted(run.rglob("verdict.json"))]
    judged = [verdict for verdict in verdicts if verdict["status"] in JUDGED]
    flagged = [verdict for verdict in judged if verdict["review"]]
    mutated = sum(verdict["integrity"].get("mutation", "not run") != "not run" for verdict in judged)
    for verdict in verdicts:
        if verdict["status"] != "resolved" or verdict["review"]:
            told = [each["message"] for each in (*verdict["integrity"]["findings"], *verdict["reasons"])]
            review = ", review" if verdict["review"] else ""
            print(f"{verdict['instance_id']}: {verdict['status']}{review}: {'; '.join(told)[:300]}")
    print(f"gold patches: {len(verdicts)}; {dict(Counter(verdict['status'] for verdict in verdicts))}")
    print(f"flagged for review: {len(flagged)} of {len(judged)} judged; the mutation control ran for {mutated}")
    tampered = any(verdict["status"] == "tampered" for verdict in judged)
    return int(not judged or tampered or len(flagged) > MOST_FLAGGED * len(judged))


if __name__ == "__main__":
    sys.exit(main())
