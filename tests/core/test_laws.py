"""Laws that matching and scoring keep for any ids and outcomes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from swelive_plugin.core.decide import score
from swelive_plugin.core.outcome import Outcome, Session, TestRecord
from swelive_plugin.core.policies import UPSTREAM
from swelive_plugin.core.policy import SWELIVE
from swelive_plugin.core.testid import Matcher, cut_id, has_unclosed_bracket, spelled

from .build import instance

settings.register_profile("patient", deadline=None)  # a busy machine is no failure
settings.load_profile("patient")

# few different pieces, so that ids collide, share prefixes and share cuts
PIECES = st.sampled_from(
    ["a", "b", " ", "\n", "\t", "[", "]", "::", " - ", "é", "\\u00e9", "/testbed/x", "0x7f00", "PASSED"]
)
PARAMETERS = st.lists(PIECES, max_size=5).map("".join)
NAMES = st.sampled_from(["t.py::test_x", "t.py::test_xy", "t.py::K::test_x", "u.py::test_x"])
IDS = st.one_of(NAMES, st.tuples(NAMES, PARAMETERS).map(lambda parts: f"{parts[0]}[{parts[1]}]"))
RECORDED = st.one_of(IDS, IDS.map(cut_id), IDS.map(lambda test_id: test_id[:-1]), st.sampled_from(["[100%]", '"', ""]))
OUTCOMES = st.sampled_from(Outcome)
REPORTED = st.dictionaries(IDS, OUTCOMES, max_size=8)
POLICIES = st.sampled_from([SWELIVE, *UPSTREAM])


def session_of(outcomes: dict[str, Outcome]) -> Session:
    return Session(
        tests={test_id: TestRecord(test_id, outcome, body_ran=True) for test_id, outcome in outcomes.items()}
    )


@given(REPORTED, RECORDED, st.randoms(use_true_random=False))
def test_order_never_changes_a_match(reported: dict[str, Outcome], recorded: str, random: object) -> None:
    shuffled = list(reported)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert Matcher(shuffled).match(recorded) == Matcher(reported).match(recorded)


@given(REPORTED, st.lists(RECORDED, max_size=6), st.lists(RECORDED, max_size=6), st.randoms(use_true_random=False))
def test_order_never_changes_a_verdict(
    reported: dict[str, Outcome], f2p: list[str], p2p: list[str], random: object
) -> None:
    items = list(reported.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    row = instance(f2p, p2p)
    assert score(row, session_of(dict(items))) == score(row, session_of(reported))


@given(REPORTED, IDS)
def test_an_exact_match_always_wins(reported: dict[str, Outcome], test_id: str) -> None:
    match = Matcher({**reported, test_id: Outcome.PASSED}).match(test_id)
    assert (match.reported, match.how) == ((test_id,), "exact")


@given(REPORTED, RECORDED)
def test_a_cut_id_matches_only_at_whitespace(reported: dict[str, Outcome], recorded: str) -> None:
    """Never ``test_x`` for ``test_xy``; beyond that only a cut inside the parameters may match by prefix."""
    match = Matcher(reported).match(recorded)
    for found in match.reported:
        if match.how == "cut":
            assert found.startswith(recorded)
            assert found[len(recorded)].isspace()
            assert not any(character.isspace() for character in recorded)
        elif match.how == "prefix":
            assert has_unclosed_bracket(recorded)
            assert found.startswith(recorded)
        elif match.how == "spelling":
            assert spelled(recorded) in (spelled(found), spelled(cut_id(found)))
        else:
            assert found == recorded


@given(REPORTED, RECORDED)
def test_every_candidate_of_a_match_is_found(reported: dict[str, Outcome], recorded: str) -> None:
    match = Matcher(reported).match(recorded)
    if match.how == "cut":
        assert set(match.reported) == {found for found in reported if cut_id(found) == recorded}
    elif match.how == "prefix":
        assert set(match.reported) == {found for found in reported if found.startswith(recorded)}
    elif match.how == "none":
        assert recorded not in reported
        assert not any(cut_id(found) == recorded for found in reported if found != cut_id(found))


@given(
    REPORTED,
    st.lists(RECORDED, max_size=4),
    st.lists(RECORDED, max_size=4),
    st.dictionaries(IDS, OUTCOMES, max_size=4),
    POLICIES,
)
def test_unrelated_tests_never_change_a_verdict(
    reported: dict[str, Outcome], f2p: list[str], p2p: list[str], more: dict[str, Outcome], policy: object
) -> None:
    """Tests of another file are unrelated, whatever became of them."""
    unrelated = {f"unrelated/{test_id}": outcome for test_id, outcome in more.items()}
    row = instance(f2p, p2p)
    alone = score(row, session_of(reported), policy=policy)  # type: ignore[arg-type]
    together = score(row, session_of({**reported, **unrelated}), policy=policy)  # type: ignore[arg-type]
    assert (together.status, together.fail_to_pass, together.pass_to_pass) == (
        alone.status,
        alone.fail_to_pass,
        alone.pass_to_pass,
    )


@given(REPORTED, st.lists(RECORDED, min_size=1, max_size=4), st.lists(RECORDED, max_size=4))
def test_resolved_means_that_every_listed_test_was_judged_and_none_failed(
    reported: dict[str, Outcome], f2p: list[str], p2p: list[str]
) -> None:
    verdict = score(instance(f2p, p2p), session_of(reported))
    assert [test.id for test in (*verdict.fail_to_pass, *verdict.pass_to_pass)] == [*f2p, *p2p]
    failed = [test for test in (*verdict.fail_to_pass, *verdict.pass_to_pass) if test.judgement == "fail"]
    assert verdict.resolved == (not failed and any(test.judgement == "pass" for test in verdict.fail_to_pass))


@given(IDS, IDS, OUTCOMES, OUTCOMES)
def test_two_tests_that_share_a_cut_id_pass_together_or_not_at_all(
    first: str, second: str, one: Outcome, other: Outcome
) -> None:
    if first == second or cut_id(first) != cut_id(second) or cut_id(first) in (first, second):
        return
    verdict = score(instance([cut_id(first)]), session_of({first: one, second: other}))
    alone = [
        score(instance([test_id]), session_of({test_id: outcome}))
        for test_id, outcome in ((first, one), (second, other))
    ]
    assert verdict.resolved == all(single.resolved for single in alone)
