"""A run while it goes on: a live table on a terminal, plain lines anywhere else."""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.files import visible
from swelive_plugin.reports.json_report import Results
from swelive_plugin.reports.terminal import Style, result_line, style_of, summary_lines

__all__ = ["RunProgress", "print_summary", "rich_style"]

_COLOURS: dict[Style, str] = {"good": "green", "bad": "red", "warn": "yellow", "dim": "dim", "plain": ""}
_SHOWN = 12  # running predictions in the live table; a batch may have hundreds of workers


def rich_style(style: Style) -> str:
    """Return the rich style for a line's style."""
    return _COLOURS[style]


class RunProgress:
    """Shows a run while it goes on; safe to call from several threads. Use it as a context manager.

    On a terminal: a table of what runs now, with its step and seconds, under the finished lines. Elsewhere: a plain
    line for each step and each finished prediction.
    """

    def __init__(self, total: int, *, console: Console | None = None) -> None:
        self._total = total
        self._console = console or Console(stderr=True)
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], tuple[str, float]] = {}
        self._counts: Counter[str] = Counter()
        self._live: Live | None = None

    def __enter__(self) -> RunProgress:  # noqa: PYI034  typing.Self is there from 3.11
        """Start to show."""
        if self._console.is_terminal:
            self._live = Live(get_renderable=self._table, console=self._console, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Take the live table away; the finished lines stay."""
        if self._live is not None:
            self._live.stop()

    def step(self, instance_id: str, step: str, *, attempt: int = 1) -> None:
        """Tell that a prediction has come to a step: ``environment``, ``session`` and the like."""
        with self._lock:
            before, since = self._running.get((instance_id, attempt), ("", time.monotonic()))
            self._running[instance_id, attempt] = (step, since)
            if self._live is None and before and step != before:  # the first step only says that it begins
                name = visible(instance_id) + (f" (attempt {attempt})" if attempt > 1 else "")
                self._console.print(Text(f"  {name}: {visible(step)}"), soft_wrap=True, highlight=False)

    def finished(self, verdict: Verdict) -> None:
        """Tell a verdict; it gets a line of its own that stays."""
        with self._lock:
            self._running.pop((verdict.instance_id, verdict.attempt), None)
            self._counts[verdict.status.value] += 1
            line = result_line(verdict, self._counts.total(), self._total)
            text = Text(line, style=rich_style(style_of(verdict.status)))
            self._console.print(text, soft_wrap=True, highlight=False)

    def _table(self) -> Group:
        with self._lock:
            running = list(self._running.items())
            done, resolved = self._counts.total(), self._counts[Status.RESOLVED.value]
        now = time.monotonic()
        table = Table.grid(padding=(0, 2))
        for (instance_id, attempt), (step, since) in running[:_SHOWN]:
            name = visible(instance_id) + (f" (attempt {attempt})" if attempt > 1 else "")
            table.add_row(Text(name), Text(step, style="cyan"), Text(f"{now - since:.0f} s", style="dim"))
        if len(running) > _SHOWN:
            table.add_row(Text(f"and {len(running) - _SHOWN} more", style="dim"))
        share = f", {resolved} resolved" if done else ""
        return Group(table, Text(f"{done} of {self._total} graded{share}", style="bold"))


def print_summary(results: Results, *, console: Console | None = None) -> None:
    """Print a run's counts; coloured on a terminal."""
    console = console or Console()
    first, *rest = summary_lines(results)
    console.print(Text(first, style="bold"), soft_wrap=True, highlight=False)
    for line in rest:
        console.print(Text(line), soft_wrap=True, highlight=False)
