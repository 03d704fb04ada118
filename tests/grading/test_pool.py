"""The pool that validations and agents run in."""

from __future__ import annotations

import threading

import pytest

from swelive_plugin.errors import InfraError
from swelive_plugin.grading import pool
from swelive_plugin.grading.pool import in_pool


def test_each_item_comes_back_with_its_result() -> None:
    assert sorted(in_pool(lambda n: n * n, [3, 1, 2], workers=2)) == [(1, 1), (2, 4), (3, 9)]
    assert list(in_pool(str, [], workers=2)) == []


def test_what_is_between_two_commands_when_the_consumer_stops_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """One interrupt only reaches commands that run: without another, the next command would be waited for."""
    told: list[int] = []
    at_second_command, interrupted = threading.Event(), threading.Event()

    def interrupt_all() -> int:
        told.append(1)
        if at_second_command.is_set():
            interrupted.set()
        if len(told) == 1:
            at_second_command.set()
        return 1

    def work(item: int) -> int:
        if item == 0:
            return 0
        assert at_second_command.wait(30)
        if interrupted.wait(30):
            raise InfraError("interrupted")
        return item

    monkeypatch.setattr(pool, "interrupt_all", interrupt_all)
    results = in_pool(work, [0, 1, 2, 3, 4], workers=2)
    assert next(results) == (0, 0)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    assert len(told) >= 2
