"""The JSON Schemas that the package ships, made from the very classes that the files are written from.

``python -m swelive_plugin.reports.schemas`` writes them anew; a test holds them current.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from swelive_plugin.core.verdict import Verdict
from swelive_plugin.files import json_bytes
from swelive_plugin.reports.json_report import RESULTS_VERSION, VERDICT_VERSION, Results

__all__ = ["FOLDER", "schemas"]

FOLDER = Path(__file__).parents[1] / "schemas"


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each JSON file, by the schema's own file name."""
    verdict = _schema(Verdict, f"verdict:{VERDICT_VERSION}", "verdict.json: the judgement of one prediction")
    # What `verdict_as_dict` adds: the form's version, and what follows from the status.
    derived = {
        "schema_version": {"const": VERDICT_VERSION},
        "resolved": {"type": "boolean"},
        "reward": {"enum": [1.0, 0.0, None]},
        "review": {"type": "boolean"},
    }
    verdict["properties"] = {**derived, **verdict["properties"]}
    verdict["required"] = sorted({*verdict["required"], *derived})
    results = _schema(Results, f"results:{RESULTS_VERSION}", "results.json: the results of a run")
    found = {"verdict.schema.json": verdict, "results.schema.json": results}
    return {name: json.loads(json_bytes(schema)) for name, schema in found.items()}  # as JSON has it: lists, no tuples


def _schema(kind: type[Any], name: str, title: str) -> dict[str, Any]:
    (reference,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own = components.pop(reference["$ref"].rsplit("/", 1)[-1])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:pytest-swelive:{name}"}
    return {**head, **own, "title": title, "$defs": components}


def main() -> None:
    """Write every schema into the package."""
    FOLDER.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        (FOLDER / name).write_bytes(json_bytes(schema))


if __name__ == "__main__":
    main()
