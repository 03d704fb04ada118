"""The optional language-model helper, against a stand-in server on this machine."""

# ruff: noqa: E501  answers are long lines
from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.environments import Environment, Trial
from swelive_plugin.environments.advisor import Advisor, advisor_from_environment, edited
from swelive_plugin.environments.search import search
from swelive_plugin.recipes.recipe import Recipe

RECIPE = Recipe(project="mylib", requirements=("pytest", "attrs==1"), extras=("test",))


class StandIn:
    """Answers each request with the next of ``answers`` and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                stand_in.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                stand_in.keys.append(self.headers.get("Authorization", ""))
                content = stand_in.answers.pop(0)
                said = {
                    "choices": [{"message": {"content": content}}],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 3},
                }
                self.send_response(200)
                self.end_headers()
                self.wfile.write(content.encode() if content == "no json" else json.dumps(said).encode())

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    made = StandIn()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_advice_is_asked_for_last_and_judged_by_the_controls(stand_in: StandIn) -> None:
    stand_in.answers = ['Sure:\n```json\n{"add": ["libfoo>=2"], "why": "it links\\nfoo"}\n```']
    said: list[str] = []
    advisor = Advisor(stand_in.url, "m", key="k", say=said.append)

    def build(recipe: Recipe) -> Environment:
        return Environment(repr(recipe.requirements), Path("/e"), "p", (3, 11, 7), (), Path("/e"), (), recipe=recipe)

    found = search(
        [RECIPE],
        build=build,
        check=lambda made: Trial("libfoo>=2" in made.recipe.requirements, 1, "E  OSError: foo is not there"),
        advise=advisor,
    )
    assert found.holds
    assert [attempt.recipe.name for attempt in found.attempts] == ["full", "advised"]
    assert "foo is not there" in stand_in.asked[0]["messages"][1]["content"]
    assert stand_in.keys == ["Bearer k"]
    assert said == ["m proposes: m: it links foo (10 tokens in, 3 out, call 1 of 3)"]


def test_the_number_of_calls_is_bounded(stand_in: StandIn) -> None:
    stand_in.answers = ['{"add": ["a"]}', '{"add": ["b"]}', '{"add": ["c"]}']
    advisor = Advisor(stand_in.url, "m", max_calls=2)
    assert [advisor(RECIPE, "log") is None for _ in range(4)] == [False, False, True, True]
    assert (len(stand_in.asked), advisor.tokens_in, advisor.tokens_out) == (2, 20, 6)


@pytest.mark.parametrize("answer", ["no json", "I can't help.", "[]", "{}", '{"add": "not a list"}', '{"python": 3}'])
def test_an_answer_that_can_not_be_read_is_no_advice(stand_in: StandIn, answer: str) -> None:
    stand_in.answers = [answer]
    assert Advisor(stand_in.url, "m")(RECIPE, "log") is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "file:///etc", ""])
def test_an_endpoint_that_is_not_there_is_no_advice(url: str) -> None:
    said: list[str] = []
    assert Advisor(url, "m", timeout_s=2, say=said.append)(RECIPE, "log") is None
    assert "gave no advice" in said[0]


def test_only_edits_of_the_allowed_kind_are_taken() -> None:
    answer = {
        "add": ["x<2", "evil @ https://host.example/e.whl", "--index-url=https://host.example", "mylib"], "remove": ["attrs"],
        "constraints": ["y<3"], "extras": ["all", "a;b"], "python": "3.9", "env": {"TZ": "UTC", "LD_PRELOAD": "/x", "PATH": "/x", "a b": "c"},
        "needs_git": True, "install": "path", "why": "w",
    }  # fmt: skip
    better = edited(RECIPE, answer, by="m")
    assert better is not None
    assert better.requirements == ("pytest", "x<2")
    assert (better.constraints, better.extras, better.python) == (("y<3",), ("all",), "3.9")
    assert (better.env, better.needs_git, better.install) == ({"TZ": "UTC"}, True, "editable")


def test_nobody_is_asked_unless_the_person_says_whom() -> None:
    assert advisor_from_environment({}) is None
    assert advisor_from_environment({"SWELIVE_ADVISOR_URL": "http://h/v1"}) is None
    made = advisor_from_environment(
        {"SWELIVE_ADVISOR_URL": "http://h/v1/", "SWELIVE_ADVISOR_MODEL": "m", "SWELIVE_ADVISOR_CALLS": "1"}
    )
    assert made is not None
    assert (made.url, made.max_calls) == ("http://h/v1", 1)
