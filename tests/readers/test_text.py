"""The text reader, each test named after the defect that readers of text logs had."""

from __future__ import annotations

from swelive_plugin.core.outcome import Session
from swelive_plugin.readers.text import session_from_lines

START = "============================= test session starts =============================="
SUMMARY = "=========================== short test summary info ============================"
PASSES = "==================================== PASSES ===================================="
FAILURES = "=================================== FAILURES ==================================="


def read(*lines: str) -> Session:
    return session_from_lines("\n".join(lines).split("\n"))


def outcomes(*lines: str) -> dict[str, str]:
    return {test_id: record.outcome.value for test_id, record in read(*lines).tests.items()}


def end(counts: str) -> str:
    return f"==================== {counts} in 0.30s ===================="


def summary(*lines: str, counts: str = "") -> list[str]:
    return [START, SUMMARY, *lines, *([end(counts)] if counts else [])]


def test_ids_keep_their_spaces() -> None:
    found = outcomes(
        *summary(
            "PASSED t.py::t[red apple]",
            "PASSED t.py::t[trail ]",
            "PASSED t.py::t[ ]",
            "FAILED t.py::t[red brick] - AssertionError: a - b",
            counts="1 failed, 3 passed",
        )
    )
    assert found == {
        "t.py::t[red apple]": "passed",
        "t.py::t[trail ]": "passed",
        "t.py::t[ ]": "passed",
        "t.py::t[red brick]": "failed",
    }


def test_a_dash_in_the_id_is_not_the_message() -> None:
    session = read(*summary("FAILED t.py::t[a - c] - ValueError: x - y", counts="1 failed"))
    record = session.tests["t.py::t[a - c]"]
    assert record.outcome.value == "failed"
    assert record.raised is not None
    assert (record.raised.type, record.raised.message) == ("ValueError", "x - y")


def test_the_heading_tells_where_an_id_with_bracket_and_dash_ends() -> None:
    lines = [START, FAILURES, "______ K.t[a] - c] ______", "boom", SUMMARY, "FAILED t.py::K::t[a] - c] - assert 0"]
    assert outcomes(*lines, end("1 failed")) == {"t.py::K::t[a] - c]": "failed"}


def test_an_id_with_a_line_break_is_one_id() -> None:
    found = outcomes(
        *summary(
            "PASSED t.py::ok",
            "FAILED t.py::t[one",
            "PASSED t.py::z] - assert 0",
            "FAILED t.py::z - assert 0",
            counts="2 failed, 1 passed",
        )
    )
    assert found == {"t.py::ok": "passed", "t.py::t[one\nPASSED t.py::z]": "failed", "t.py::z": "failed"}


def test_a_message_line_does_not_forge_a_pass() -> None:
    """With CI set pytest prints whole messages: their second line can look like a result."""
    session = read(
        *summary("FAILED t.py::a - x", "PASSED t.py::a", "PASSED t.py::gone", "FAILED t.py::b", counts="2 failed")
    )
    assert {key: record.outcome.value for key, record in session.tests.items()} == {
        "t.py::a": "failed",
        "t.py::b": "failed",
    }
    assert any("2 lines look like results" in note for note in session.notes)


def test_a_message_line_does_not_forge_a_pass_among_real_passes() -> None:
    found = outcomes(
        *summary(
            "PASSED t.py::ok", "FAILED t.py::a - x", "PASSED t.py::gone", "FAILED t.py::b", counts="2 failed, 1 passed"
        )
    )
    assert found == {"t.py::ok": "passed", "t.py::a": "failed", "t.py::b": "failed"}


def test_a_message_line_does_not_forge_a_pass_where_failures_come_first() -> None:
    """-rfEP prints the group of passed tests last; the forged run stands inside the group of failures."""
    found = outcomes(
        *summary(
            "FAILED t.py::a - x", "PASSED t.py::gone", "FAILED t.py::b", "PASSED t.py::ok", counts="2 failed, 1 passed"
        )
    )
    assert found == {"t.py::ok": "passed", "t.py::a": "failed", "t.py::b": "failed"}


def test_a_message_line_does_not_fail_a_passed_test() -> None:
    found = outcomes(*summary("PASSED t.py::ok", "FAILED t.py::a - x", "FAILED t.py::ok", counts="1 failed, 1 passed"))
    assert found == {"t.py::ok": "passed", "t.py::a": "failed"}


def test_captured_output_is_no_evidence() -> None:
    lines = [
        START,
        "t.py .   [100%]",
        PASSES,
        "______ talk ______",
        "----- Captured stdout call -----",
        "PASSED t.py::gone",
        SUMMARY,
        "PASSED t.py::gone",
        "more output",
        SUMMARY,
        "PASSED t.py::talk",
        end("1 passed"),
    ]
    session = read(*lines)
    assert list(session.tests) == ["t.py::talk"]
    assert any("line 6: PASSED t.py::gone" in note for note in session.notes)


def test_a_session_inside_captured_output_is_no_evidence() -> None:
    inner = [START, "collected 1 item", SUMMARY, "PASSED inner.py::gone", end("1 passed")]
    lines = [
        START,
        "t.py .F [100%]",
        FAILURES,
        "____ t ____",
        *inner,
        *inner,
        SUMMARY,
        "FAILED t.py::t",
        end("1 failed"),
    ]
    session = read(*lines)
    assert {key: record.outcome.value for key, record in session.tests.items()} == {"t.py::t": "failed"}
    assert session.ended


def test_an_inner_session_that_broke_off_does_not_hide_the_outer_one() -> None:
    lines = [START, FAILURES, "____ t ____", START, "collected 1 item", SUMMARY, "FAILED t.py::t", end("1 failed")]
    session = read(*lines)
    assert {key: record.outcome.value for key, record in session.tests.items()} == {"t.py::t": "failed"}
    assert session.ended


def test_several_sessions_in_one_log_add_up() -> None:
    first = summary("PASSED a.py::a", counts="1 passed")
    second = summary("PASSED b.py::b", "FAILED b.py::c", counts="1 failed, 1 passed")
    session = read("setup", *first, "between", *second, "after")
    assert {key: record.outcome.value for key, record in session.tests.items()} == {
        "a.py::a": "passed",
        "b.py::b": "passed",
        "b.py::c": "failed",
    }
    assert session.ended
    assert any("2 pytest sessions" in note for note in session.notes)


def test_an_id_in_two_sessions_counts_with_its_worst_outcome() -> None:
    """A session printed after the real one must not turn a failure into a pass."""
    first, second = summary("FAILED a.py::a", counts="1 failed"), summary("PASSED a.py::a", counts="1 passed")
    assert outcomes(*first, *second) == outcomes(*second, *first) == {"a.py::a": "failed"}


def test_a_session_without_its_last_line_did_not_end() -> None:
    session = read(START, "t.py::a PASSED  [ 50%]", "t.py::b ")
    assert not session.ended
    assert session.tests["t.py::a"].outcome.value == "passed"
    assert session.tests["t.py::b"].outcome.value == "crashed"


def test_a_session_stopped_at_its_time_limit_names_the_test_that_hung() -> None:
    session = read(START, "t.py::a PASSED  [ 50%]", "t.py::b ", "+++++++++++++ Timeout +++++++++++++")
    assert session.timed_out
    assert session.tests["t.py::b"].outcome.value == "timed_out"


def test_a_first_session_that_broke_off_is_not_healed_by_a_second() -> None:
    session = read(START, "t.py::a ", *summary("PASSED t.py::a", counts="1 passed"))
    assert not session.ended
    assert session.tests["t.py::a"].outcome.value == "crashed"


def test_verbose_lines_alone_tell_the_outcome() -> None:
    found = outcomes(
        START,
        "t.py::a PASSED                                                     [ 10%]",
        "t.py::b[x y] FAILED                                                [ 20%]",
        "t.py::c SKIPPED (PASSED [ 3%])                                     [ 30%]",
        "t.py::d XFAIL (why)                                                [ 40%]",
        "t.py::e XPASS                                                      [ 50%]",
        "t.py::f ERROR                                                      [ 60%]",
        "t.py::g xfail                                                      [ 70%]",
        "t.py::h PASSED                                                     [8/10]",
        "t.py::i PASSED 12.3s",
        end("1 failed"),
    )
    assert found == {
        "t.py::a": "passed",
        "t.py::b[x y]": "failed",
        "t.py::c": "skipped",
        "t.py::d": "xfailed",
        "t.py::e": "xpassed",
        "t.py::f": "error",
        "t.py::g": "xfailed",
        "t.py::h": "passed",
        "t.py::i": "passed",
    }


def test_verbose_lines_of_workers() -> None:
    found = outcomes(
        START,
        "t.py::a[a b] ",
        "[gw0] [ 33%] PASSED t.py::a[a b] ",
        "t.py::b ",
        "[gw1] [ 66%] FAILED t.py::b ",
        "[gw1] PASSED t.py::c",
        end("1 failed, 2 passed"),
    )
    assert found == {"t.py::a[a b]": "passed", "t.py::b": "failed", "t.py::c": "passed"}


def test_output_between_a_verbose_id_and_its_status() -> None:
    found = outcomes(
        START,
        "t.py::a ",
        "----------------------- live log call -----------------------",
        "INFO     root:t.py:3 hello",
        "PASSED                                                    [ 50%]",
        "t.py::b[x] some output",
        "FAILED",
        end("1 failed, 1 passed"),
    )
    assert found == {"t.py::a": "passed", "t.py::b[x]": "failed"}


def test_teardown_error_after_a_pass_is_an_error() -> None:
    both = summary("PASSED t.py::a", "ERROR t.py::a - RuntimeError: td", counts="1 passed, 1 error")
    assert outcomes(*both) == {"t.py::a": "error"}
    verbose = outcomes(START, "t.py::a PASSED [ 50%]", "t.py::a ERROR [ 50%]", end("1 passed, 1 error"))
    assert verbose == {"t.py::a": "error"}


def test_a_rerun_counts_with_its_last_attempt_and_is_flaky() -> None:
    session = read(START, "t.py::a RERUN [ 50%]", "t.py::a PASSED [ 50%]", end("1 passed, 1 rerun"))
    assert session.tests["t.py::a"].outcome.value == "passed"
    assert session.tests["t.py::a"].flaky


def test_failed_subtests_fail_their_test() -> None:
    found = outcomes(
        *summary(
            "PASSED t.py::ok",
            "PASSED t.py::C::u",
            "SUBFAILED[m x] (i=1) t.py::s - assert 1",
            "FAILED t.py::s - contains 1 failed subtest",
            "SUBFAILED(i=1) t.py::C::u - AssertionError",
            counts="3 failed, 2 passed",
        )
    )
    assert found == {"t.py::ok": "passed", "t.py::C::u": "failed", "t.py::s": "failed"}


def test_xfail_and_xpass_of_every_version() -> None:
    session = read(
        *summary(
            "XFAIL t.py::old",
            "  reason: [NOTRUN] why",
            "XFAIL t.py::ran - why",
            "XFAIL at setup of t.py::new - [NOTRUN] ",
            "XPASS t.py::p[a b] always xfail",
            "XPASS t.py::q - reason",
            "FAILED t.py::strict - [XPASS(strict)] ",
            counts="1 failed, 3 xfailed, 2 xpassed",
        )
    )
    assert {key: (record.outcome.value, record.body_ran) for key, record in session.tests.items()} == {
        "t.py::old": ("xfailed", False),
        "t.py::ran": ("xfailed", True),
        "t.py::new": ("xfailed", False),
        "t.py::p[a b]": ("xpassed", True),
        "t.py::q": ("xpassed", True),
        "t.py::strict": ("failed", True),
    }


def test_folded_skips_name_no_test_and_are_noted() -> None:
    session = read(*summary("SKIPPED [2] t.py:4: why", "SKIPPED [1] u.py: module", counts="3 skipped"))
    assert session.tests == {}
    assert any("3 skipped tests are printed without their ids (t.py:4, u.py:0)" in note for note in session.notes)


def test_unfolded_skips_name_their_test() -> None:
    assert outcomes(*summary("SKIPPED t.py::a - why", counts="1 skipped")) == {"t.py::a": "skipped"}


def test_a_file_that_could_not_be_collected_is_no_test() -> None:
    session = read(
        *summary("PASSED t.py::a", "ERROR bad.py - ImportError: x", "ERROR sub/worse.py", counts="1 passed, 2 errors")
    )
    assert list(session.tests) == ["t.py::a"]
    assert [(error.id, error.type, error.message) for error in session.collect_errors] == [
        ("bad.py", "ImportError", "x"),
        ("sub/worse.py", "", ""),
    ]


def test_a_class_that_could_not_be_collected_is_no_test() -> None:
    errors = "==================================== ERRORS ===================================="
    lines = [
        START,
        errors,
        "______ ERROR collecting t.py::K ______",
        "boom",
        SUMMARY,
        "ERROR t.py::K - boom",
        end("1 error"),
    ]
    session = read(*lines)
    assert session.tests == {}
    assert [error.id for error in session.collect_errors] == ["t.py::K"]


def test_a_conftest_that_can_not_be_imported_is_told() -> None:
    session = read("ImportError while loading conftest '/p/conftest.py'.", "conftest.py:1: in <module>", "E   X: no")
    assert session.tests == {}
    assert not session.ended
    assert session.collect_errors[0].message == "while loading conftest /p/conftest.py: X: no"


def test_colour_line_ends_and_times_of_a_ci_service() -> None:
    stamp = "2026-01-02T03:04:05.1234567Z "
    lines = [f"{stamp}\x1b[1m{START}\x1b[0m\r", f"{stamp}\x1b[36m{SUMMARY}\x1b[0m\r"]
    lines += [f"{stamp}\x1b[32mPASSED\x1b[0m t.py::\x1b[1ma\x1b[0m\r", f"{stamp}\x1b[32m{end('1 passed')}\x1b[0m\r"]
    session = read(*lines)
    assert list(session.tests) == ["t.py::a"]
    assert session.ended


def test_quiet_logs_have_neither_header_nor_decorated_end() -> None:
    session = read(
        "..F   [100%]",
        PASSES,
        "PASSED t.py::x",
        SUMMARY,
        "PASSED t.py::a",
        "FAILED t.py::b",
        "1 failed, 1 passed in 0.1s",
    )
    assert {key: record.outcome.value for key, record in session.tests.items()} == {
        "t.py::a": "passed",
        "t.py::b": "failed",
    }
    assert session.ended


def test_dots_alone_are_counted_and_noted() -> None:
    session = read(START, "t.py ...   [100%]", "", end("3 passed"))
    assert session.tests == {}
    assert any("3 results are counted but not named" in note for note in session.notes)


def test_a_pass_that_the_complete_summary_does_not_list_is_not_believed() -> None:
    """Under -s -v a test can print a line that looks like the progress."""
    session = read(
        START, "t.py::gone PASSED [ 50%]", "t.py::a PASSED [ 99%]", SUMMARY, "PASSED t.py::a", end("1 passed")
    )
    assert list(session.tests) == ["t.py::a"]


def test_old_logs_read_in_fragments() -> None:
    found = outcomes(
        "t.py::K::wraps_in_a_narrow_terminal PAS",
        "SED [ 58%]",
        "t.py::two PASSED [100%]",
        "PASSED [ 50%]",
        "ERROR: not found: /x/t.py::b",
        "[gw1] [ 75%] PASSED t.py::three",
        "XPASS t.py::four - reason",
        "SUBFAILED[x] t.py::five - assert 0",
        "PASSED t.py::six [100%]",
        "PASSED",
    )
    assert found == {
        "t.py::K::wraps_in_a_narrow_terminal": "passed",
        "t.py::two": "passed",
        "t.py::three": "passed",
        "t.py::four": "xpassed",
        "t.py::five": "failed",
        "t.py::six": "passed",
    }


def test_status_words_and_marks_inside_ids() -> None:
    found = outcomes(
        *summary(
            "PASSED t.py::w[100%]",
            "PASSED t.py::w[a FAILED x]",
            "PASSED t.py::w[[gw0] PASSED]",
            "PASSED t.py::w[a [100%]",
            counts="4 passed",
        )
    )
    assert list(found) == ["t.py::w[100%]", "t.py::w[a FAILED x]", "t.py::w[[gw0] PASSED]", "t.py::w[a [100%]"]
    verbose = outcomes(START, "t.py::w[a FAILED] PASSED [ 50%]", "t.py::w[a PASSED (x)] FAILED [100%]", end("1 failed"))
    assert verbose == {"t.py::w[a FAILED]": "passed", "t.py::w[a PASSED (x)]": "failed"}


def test_absolute_ids_are_relative_to_the_checkout() -> None:
    lines = [
        START,
        "rootdir: /home/u/p, configfile: x.ini",
        SUMMARY,
        "PASSED /testbed/t.py::a",
        "PASSED /home/u/p/u.py::b",
    ]
    session = read(*lines, end("2 passed"))
    assert list(session.tests) == ["t.py::a", "u.py::b"]
    assert session.rootdir == "/home/u/p"


def test_the_header_tells_versions_and_plugins() -> None:
    session = read(
        START,
        "platform linux -- Python 3.11.7, pytest-9.0.3, pluggy-1.6.0",
        "plugins: cov-5.0, xdist-3.6",
        end("no tests ran"),
    )
    assert (session.python_version, session.pytest_version) == ("3.11.7", "9.0.3")
    assert session.plugins == ("cov-5.0", "xdist-3.6")


def test_the_exit_status_that_a_harness_wrote_is_read() -> None:
    session = read(
        *summary("PASSED t.py::a", counts="1 passed"), "+ echo '>>>>> Test Exit Code: 1'", ">>>>> Test Exit Code: 1"
    )
    assert session.exit_status == 1


def test_an_internal_error_of_pytest_is_told() -> None:
    session = read(START, "INTERNALERROR> Traceback", "INTERNALERROR> KeyError: 'x'", end("no tests ran"))
    assert session.internal_error == "KeyError: 'x'"


def test_noise_before_a_session_is_no_evidence() -> None:
    assert outcomes("PASSED t.py::gone", "t.py::gone PASSED [ 1%]", *summary("PASSED t.py::a", counts="1 passed")) == {
        "t.py::a": "passed"
    }


def test_an_inherited_test_names_the_file_that_it_stands_in() -> None:
    found = outcomes(
        START,
        "t.py::K::a <- base.py PASSED [ 50%]",
        "t.py::K::b[x - y] <- ../lib/base.py FAILED [ 50%]",
        "[gw0] [ 99%] PASSED t.py::K::c <- base.py",
        end("1 failed, 2 passed"),
    )
    assert found == {"t.py::K::a": "passed", "t.py::K::b[x - y]": "failed", "t.py::K::c": "passed"}


def test_output_on_the_line_of_a_verbose_id() -> None:
    found = outcomes(START, "t.py::a hello PASSED [ 50%]", "t.py::b[x y] [hello] FAILED [ 99%]", end("1 failed"))
    assert found == {"t.py::a": "passed", "t.py::b[x y] [hello]": "failed"}  # brackets may belong to the id


def test_what_other_tools_print_behind_an_id_is_no_part_of_it() -> None:
    found = outcomes(
        "PASSED t.py::a (0.01s)",
        "PASSED t.py::b[x y] 0.5s",
        "FAILED t.py::c because",
        "XFAIL t.py::d[x] reason",
        "PASSED conf.yaml::a usage example",
    )
    assert list(found) == ["t.py::a", "t.py::b[x y]", "t.py::c", "t.py::d[x]", "conf.yaml::a usage example"]


def test_two_results_on_one_line() -> None:
    found = outcomes(START, "t.py::a PASSED [ 50%]t.py::b[x y] FAILED [100%]", end("1 failed, 1 passed"))
    assert found == {"t.py::a": "passed", "t.py::b[x y]": "failed"}


def test_an_id_wrapped_by_a_narrow_terminal() -> None:
    start = "tests/unit/test_module.py::TestVeryLong::test_name_that_wra"
    found = outcomes(
        START, start + "ps", "_in_a_narrow_terminal PASSED [ 50%]", "t.py::b", "hello PASSED x", end("1 passed")
    )
    assert found == {f"{start}ps_in_a_narrow_terminal": "passed"}


def test_colour_codes_whose_escape_character_was_lost() -> None:
    lines = [
        f"[1m{START}[0m",
        f"[36m[1m{SUMMARY}[0m",
        "[32mPASSED[0m t.py::[1ma[0m",
        "[31mFAILED[0m t.py::[1mb[1m][0m - x",
    ]
    assert outcomes(*lines, "[31m[1m1 failed[0m, 1 passed in 0.1s") == {"t.py::a": "passed", "t.py::b]": "failed"}
    assert outcomes(*summary("PASSED t.py::t[1m]", counts="1 passed")) == {"t.py::t[1m]": "passed"}


def test_lines_of_an_image_build() -> None:
    lines = [f"#12 3.{number}00 {line}" for number, line in enumerate(summary("PASSED t.py::a", counts="1 passed"))]
    assert outcomes("#11 DONE", *lines) == {"t.py::a": "passed"}


def test_more_passed_tests_than_counted_are_noted() -> None:
    """Without -rA nothing tells which of them a test printed; a person should look."""
    session = read(START, "t.py::a PASSED [ 50%]", "t.py::gone PASSED [ 99%]", end("1 passed"))
    assert "the progress shows 2 passed tests, the last line counts 1" in session.notes
