"""Did the coding agent's patch really fix the bug? The door: a literal list of names, loaded when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from swelive_plugin._version import __version__

if TYPE_CHECKING:
    from swelive_plugin.core.decide import score
    from swelive_plugin.core.instance import Instance
    from swelive_plugin.core.outcome import Outcome, Session
    from swelive_plugin.core.policy import Policy
    from swelive_plugin.core.prediction import Prediction
    from swelive_plugin.core.verdict import Status, Verdict
    from swelive_plugin.errors import SweliveError
    from swelive_plugin.grading.batch import grade_all
    from swelive_plugin.grading.pipeline import grade
    from swelive_plugin.grading.settings import Settings
    from swelive_plugin.library import score_file
    from swelive_plugin.sources.instances import load_instances
    from swelive_plugin.sources.predictions import load_predictions

__all__ = [
    "Instance",
    "Outcome",
    "Policy",
    "Prediction",
    "Session",
    "Settings",
    "Status",
    "SweliveError",
    "Verdict",
    "__version__",
    "grade",
    "grade_all",
    "load_instances",
    "load_predictions",
    "score",
    "score_file",
]

_HOMES = {
    "Instance": "core.instance",
    "Outcome": "core.outcome",
    "Policy": "core.policy",
    "Prediction": "core.prediction",
    "Session": "core.outcome",
    "Settings": "grading.settings",
    "Status": "core.verdict",
    "SweliveError": "errors",
    "Verdict": "core.verdict",
    "grade": "grading.pipeline",
    "grade_all": "grading.batch",
    "load_instances": "sources.instances",
    "load_predictions": "sources.predictions",
    "score": "core.decide",
    "score_file": "library",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
