"""Lines for people: a verdict at a glance, a run while it goes on, and nothing that fools the eye."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from dataclasses import replace

from rich.console import Console

from swelive_plugin.core.policy import OUT_OF_SCOPE
from swelive_plugin.core.verdict import Finding, Integrity, Reason, Status, Verdict
from swelive_plugin.reports.json_report import results_of
from swelive_plugin.reports.progress import RunProgress, print_summary
from swelive_plugin.reports.terminal import result_line, summary_lines, verdict_lines, verdict_styled_lines
from tests.reports.build import ALL, EMPTY, ENV_ERROR, FOUL, PATCH_FAILED, RESOLVED, TAMPERED, UNRESOLVED, judged


def test_an_unresolved_verdict_tells_each_test_and_the_counts() -> None:
    assert verdict_lines(UNRESOLVED) == [
        "UNRESOLVED  a__b-2  reward 0, review asked for",
        "  FAIL_TO_PASS: 1 of 2 pass",
        "    FAIL  t.py::test_a[x  failed  AssertionError: 1 != 2 (t.py:3)",
        "    pass  t.py::test_ok  xfailed",
        "  PASS_TO_PASS: 1 of 2 kept, 2 left out",
        "    FAIL  t.py::test_b  error  KeyError: 'x'",
        "    left out  u.py::test_c and 1 more: its file was not run",
        "  patch repaired: final newline added",
        "  put back before grading: t.py, conftest.py",
        "  flag: asks for pytest (x.py:4)",
        "  integrity: no sandbox: the graded code could reach this machine",
        "  warning: the tests ran as root",
    ]


def test_a_resolved_verdict_is_short() -> None:
    assert verdict_lines(RESOLVED) == [
        "RESOLVED  a__b-1  reward 1",
        "  FAIL_TO_PASS: 1 of 1 pass",
        "    pass  t.py::test_a",
        "  PASS_TO_PASS: 1 of 1 kept, 1 left out",
        "    left out  u.py::test_c: not run",
    ]


def test_causes_that_no_test_shows_stand_with_their_evidence() -> None:
    assert verdict_lines(PATCH_FAILED) == [
        "PATCH_FAILED  a__b-3  reward 0",
        "  hunk 2 does not apply (x.py:30)",
        "    | error: one",
        "    | error: two",
    ]
    assert verdict_lines(ENV_ERROR) == ["ENV_ERROR  a__b-4  no verdict, no reward", "  the project does not install"]
    assert verdict_lines(EMPTY) == ["EMPTY_PATCH  a__b-5  reward 0", "  the patch is empty: nothing was run"]
    assert verdict_lines(TAMPERED)[1] == "  t.py::test_a was reported as passed although it raised"


def test_long_lists_are_cut_and_counted() -> None:
    many = tuple(judged(f"t.py::test_{number}", "fail", message="no") for number in range(1000))
    lines = verdict_lines(Verdict("a", Status.UNRESOLVED, pass_to_pass=many), limit=3)
    assert lines[1:] == [
        "  PASS_TO_PASS: 0 of 1000 kept",
        *(f"    FAIL  t.py::test_{number}  missing  no" for number in range(3)),
        "    …     and 997 more",
    ]


def test_an_in_process_verdict_says_so() -> None:
    verdict = replace(RESOLVED, integrity=Integrity(mode="in-process"))
    assert verdict_lines(verdict)[-1] == "  integrity: in-process: for code that you trust"


def test_the_graded_code_writes_no_control_character_to_the_terminal() -> None:
    """A message with an escape sequence could paint "resolved" over the verdict."""
    told = "\n".join(verdict_lines(FOUL)) + result_line(FOUL, 1, 1) + "".join(summary_lines(results_of([FOUL])))
    assert {character for character in told if not character.isprintable()} == {"\n"}
    assert r"\x1b[2K\r\x00 <b>&]]>" in told


def test_styles_follow_the_judgement() -> None:
    styles = {line.text.split()[0]: line.style for line in verdict_styled_lines(UNRESOLVED)}
    assert (styles["UNRESOLVED"], styles["FAIL"], styles["pass"], styles["flag:"]) == ("bad", "bad", "good", "warn")
    assert verdict_styled_lines(ENV_ERROR)[0].style == "warn"
    assert verdict_styled_lines(RESOLVED)[0].style == "good"


def test_a_line_of_progress() -> None:
    assert result_line(RESOLVED, 3, 14) == "[ 3/14] resolved         a__b-1  1.5 s"
    assert result_line(replace(PATCH_FAILED, attempt=2), 14, 14) == (
        "[14/14] patch_failed     a__b-3 (attempt 2)  0.0 s  hunk 2 does not apply"
    )


def test_summary_of_a_run() -> None:
    results = results_of(ALL, instance_ids=["a__b-1", "z__z-1"])
    assert summary_lines(results) == [
        "resolved 1 of 7 (14.3%)",
        "  empty_patch          1",
        "  env_error            1",
        "  patch_failed         1",
        "  tampered             1",
        "  unresolved           2",
        "  no prediction        1",
        "  review asked for: a__b-2: asks for pytest (x.py:4)",
    ]
    assert summary_lines(results_of([])) == ["resolved 0 of 0"]


def test_review_names_the_attempt_and_the_first_finding() -> None:
    """Defect: only the id was told, also where one of five attempts was meant."""
    two = (Finding("a", "suspicious", "looked"), Finding("b", "flag", "first\nflag"), Finding("c", "flag", "second"))
    flagged = replace(RESOLVED, attempt=2, integrity=Integrity(findings=two))
    assert summary_lines(results_of([RESOLVED, flagged]))[-1] == (
        "  review asked for: a__b-1 (attempt 2): first flag (and 1 more)"
    )


def test_progress_tells_what_the_scope_left_out() -> None:
    """Defect: resolved under f2p-files said nowhere that most of PASS_TO_PASS was not run."""
    kept = [judged(f"t.py::test_{number}", outcome="passed") for number in range(3)]
    left = [judged("t.py::test_odd", "left_out", "p2p-missing"), judged("u.py::test_u", "left_out", OUT_OF_SCOPE)]
    assert result_line(replace(RESOLVED, pass_to_pass=(*kept, *left)), 1, 1) == (
        "[1/1] resolved         a__b-1  1.5 s  "
        "PASS_TO_PASS 3 of 5 judged: the files of 1 were not run (--scope all runs them)"
    )
    assert "judged" not in result_line(replace(RESOLVED, pass_to_pass=tuple(kept)), 1, 1)


def test_message_of_several_lines_is_joined() -> None:
    """Defect: the lines were told with a literal backslash and n between them."""
    message = "assert 1 == 2\n  where 1 = f()\r\n\n  more"
    reason = Reason("f2p-failed", message)
    verdict = Verdict("a", Status.UNRESOLVED, reasons=(reason,), fail_to_pass=(judged("t", "fail", message=message),))
    assert verdict_lines(verdict)[1] == "  assert 1 == 2 where 1 = f() more"
    assert verdict_lines(verdict)[3] == "    FAIL  t  missing  assert 1 == 2 where 1 = f() more"
    assert result_line(verdict, 1, 1).endswith("assert 1 == 2 where 1 = f() more")


def test_without_a_terminal_progress_is_plain_lines() -> None:
    out = io.StringIO()
    console = Console(file=out, width=40)
    with RunProgress(2, console=console) as progress:
        progress.step("a__b-1", "environment")
        progress.finished(RESOLVED)
        progress.finished(UNRESOLVED)
    assert out.getvalue().splitlines() == [
        "[1/2] resolved         a__b-1  1.5 s",
        "[2/2] unresolved       a__b-2  12.3 s  t.py::test_a[x: AssertionError: 1 != 2 (t.py:3) (and 1 more)",
    ]


def test_on_a_terminal_what_runs_is_shown_and_taken_away() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None, legacy_windows=False)
    with RunProgress(3, console=console) as progress:
        for number in range(20):
            progress.step(f"a__b-{number}", "session", attempt=2)
        progress.finished(RESOLVED)
    shown = out.getvalue()
    assert "a__b-0 (attempt 2)" in shown
    assert "and 8 more" in shown
    assert "1 of 3 graded, 1 resolved" in shown
    assert "[1/3] resolved         a__b-1  1.5 s" in shown


def test_progress_is_safe_in_threads() -> None:
    out = io.StringIO()
    with RunProgress(400, console=Console(file=out, width=80)) as progress:

        def work(start: int) -> None:
            for number in range(start, start + 100):
                progress.step(f"a__b-{number}", "session")
                progress.finished(replace(RESOLVED, instance_id=f"a__b-{number}"))

        threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 400, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = out.getvalue().splitlines()
    assert [line.split("]")[0] for line in lines] == [f"[{number:>3}/400" for number in range(1, 401)]


def test_print_summary_prints_the_same_lines() -> None:
    out = io.StringIO()
    print_summary(results_of(ALL), console=Console(file=out, width=200))
    assert out.getvalue().splitlines() == summary_lines(results_of(ALL))


def test_verdict_lines_need_no_rich() -> None:
    """The plugin prints its section inside somebody's pytest: nothing heavy is to be imported for it."""
    code = "import sys, swelive_plugin.reports.terminal; print('rich' in sys.modules, 'datasets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
