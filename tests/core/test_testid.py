"""Matching of recorded to reported ids."""

from __future__ import annotations

import time

import pytest

from swelive_plugin.core.testid import Matcher, cut_id, file_of, is_test_id, portable_id, same_but_unstable


@pytest.mark.parametrize(
    ("test_id", "cut"),
    [
        ("t.py::test_s[red apple]", "t.py::test_s[red"),
        ("t.py::test_s[a\tb]", "t.py::test_s[a"),
        ("t.py::test_u[one\ntwo]", "t.py::test_u[one"),
        ("t.py::test_plain", "t.py::test_plain"),
        ("t.py::test_b[a] b]", "t.py::test_b[a]"),
        ("t.py::test_n[a\u00a0b]", "t.py::test_n[a"),  # str.split() takes a no-break space for whitespace
        ("", ""),
    ],
)
def test_an_id_is_cut_at_its_first_whitespace(test_id: str, cut: str) -> None:
    assert cut_id(test_id) == cut


@pytest.mark.parametrize(
    ("recorded", "possible"),
    [
        ("tests/test_a.py::test_a", True),
        ("tests/test_a.py::TestK::test_c[a::b]", True),
        ("docs.rst::docs.rst", True),
        ("tests/test_a.py", True),
        ("[100%]", False),
        ('"', False),
        ("'", False),
        ("", False),
        ("-", False),
        ("::test_a", False),
        ("tests/test_a.py::", False),
        ("PASSED", False),
        ("test_validate", False),
    ],
)
def test_phantom_ids_are_told_from_test_ids(recorded: str, possible: bool) -> None:
    assert is_test_id(recorded) is possible


def test_the_file_is_found_before_the_first_bracket() -> None:
    assert file_of("a/test_m.py::TestK::test_c[x::y/z]") == "a/test_m.py"
    assert file_of("a/test_m.py[x::y]") == "a/test_m.py"


def test_an_exact_match_wins_over_a_cut_one() -> None:
    matcher = Matcher(["t.py::f[a", "t.py::f[a b]"])
    assert matcher.match("t.py::f[a").reported == ("t.py::f[a",)
    assert matcher.match("t.py::f[a").how == "exact"


def test_a_cut_id_finds_every_test_that_shares_it() -> None:
    match = Matcher(["t.py::f[a c]", "t.py::f[a b]", "t.py::f[ab c]"]).match("t.py::f[a")
    assert (match.how, match.reported) == ("cut", ("t.py::f[a b]", "t.py::f[a c]"))


def test_a_cut_with_balanced_brackets_is_found() -> None:
    assert Matcher(["m.py::test_b[a] b]", "m.py::test_b[c]"]).match("m.py::test_b[a]").reported == (
        "m.py::test_b[a] b]",
    )


def test_a_prefix_counts_only_with_an_unclosed_bracket() -> None:
    matcher = Matcher(["t.py::test_xy", "t.py::test_x[long-value]"])
    assert matcher.match("t.py::test_x").reported == ()
    assert matcher.match("t.py::test_x[long").how == "prefix"
    assert matcher.match("t.py::test_x[long").reported == ("t.py::test_x[long-value]",)


def test_a_checkout_elsewhere_equals_testbed() -> None:
    assert portable_id("t.py::f[/home/me/wt/a.txt]", "/home/me/wt") == "t.py::f[/testbed/a.txt]"
    assert portable_id("t.py::f[/home/me/wt2/a.txt]", "/home/me/wt") == "t.py::f[/home/me/wt2/a.txt]"
    matcher = Matcher(["t.py::f[/home/me/wt/a b]"], root="/home/me/wt")
    assert matcher.match("t.py::f[/testbed/a").reported == ("t.py::f[/home/me/wt/a b]",)


def test_unstable_ids_are_recognised_but_years_are_not() -> None:
    assert same_but_unstable("t.py::f[obj-7f00]", "t.py::f[obj-7f4840ac5bb0]")
    assert same_but_unstable("t.py::f[<X object at 0x7f00>]", "t.py::f[<X object at 0x99aa>]")
    assert not same_but_unstable("t.py::f[2024]", "t.py::f[2025]")
    assert not same_but_unstable("t.py::f[a]", "t.py::f[a]")


def test_ids_that_change_at_every_run_are_found_by_their_shape() -> None:
    """By a look-up, not by a search through the function's ids: ten thousand parameters are no rare thing."""
    reported = [f"t.py::f[<X object at 0x7f{number:08x}>-{number}]" for number in range(10_000)]
    recorded = [f"t.py::f[<X object at 0x55{number:08x}>-{number}]" for number in range(10_000)]
    matcher = Matcher(reported)
    began = time.process_time()
    assert [matcher.unstable(test_id) for test_id in recorded] == [(test_id,) for test_id in reported]
    assert time.process_time() - began < 5  # a search took minutes
    assert matcher.unstable("t.py::f[a]") == ()
    assert matcher.unstable("t.py::g[0x7f00]") == ()


@pytest.mark.parametrize(
    ("recorded", "reported"),
    [
        ("t.py::f[in ner]", "t.py::f[in  ner]"),
        ("t.py::f[one two]", "t.py::f[one\ntwo]"),
        ("t.py::f[\\xe9]", "t.py::f[é]"),
        ("t.py::f[é]", "t.py::f[\\xe9]"),
        ("t.py::f[\\u65e5\\u672c]", "t.py::f[日本]"),
        ("t.py::f[\\U0001f600", "t.py::f[\U0001f600 x]"),
    ],
)
def test_ids_that_are_only_spelled_otherwise_are_the_same(recorded: str, reported: str) -> None:
    match = Matcher([reported, "t.py::f[other]"]).match(recorded)
    assert (match.reported, match.how) == ((reported,), "spelling")


def test_an_exact_spelling_wins() -> None:
    match = Matcher(["t.py::f[a  b]", "t.py::f[a b]", "t.py::f[\\xe9]", "t.py::f[é]"]).match
    assert match("t.py::f[a b]").reported == ("t.py::f[a b]",)
    assert match("t.py::f[é]").reported == ("t.py::f[é]",)


def test_two_tests_of_one_spelling_are_both_candidates() -> None:
    found = Matcher(["t.py::f[a  b]", "t.py::f[a\tb]"]).match("t.py::f[a b]")
    assert found.reported == ("t.py::f[a\tb]", "t.py::f[a  b]")


def test_what_is_no_escape_stays() -> None:
    assert Matcher(["t.py::f[\\n]"]).match("t.py::f[ ]").how == "none"
    assert Matcher(["t.py::f[\\Uffffffff]"]).match("t.py::f[x]").how == "none"
