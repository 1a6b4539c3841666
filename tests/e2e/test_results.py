"""The results of the conformance suite from reports and expectations."""

import textwrap

import pytest

from tests.e2e.images import IMAGES, images_file
from tests.e2e.results import (
    ExpectationError,
    Outcome,
    Result,
    differences,
    expected,
    from_json,
    markdown,
    surprises,
    to_json,
)
from tests.e2e.selection import QUICK_SECONDS, listed, quick, repeated
from tests.e2e.suite import failure_of, is_serial, seconds_allowed

GOOD = Result("[sig-node] Pods should run [Conformance]", Outcome.PASSED, 2.04)
BAD = Result("[sig-apps] Job should end [Conformance]", Outcome.FAILED, 3.0, "it <did> not")


def test_an_unexpected_failure_and_an_unexpected_pass_are_both_surprises():
    lines = surprises([GOOD, BAD], {GOOD.test: "the node lacks it"})
    assert [line.split(":")[0] for line in lines] == ["unexpected pass", "unexpected failure"]


def test_results_as_expected_are_no_surprise():
    assert surprises([GOOD, BAD], {BAD.test: "SCTP is not supported"}) == []


def test_results_survive_json():
    assert from_json(to_json([GOOD, BAD], "v1.36.2")) == [BAD, Result(GOOD.test, GOOD.outcome, 2.0)]


def test_the_page_counts_by_sig_and_gives_the_expected_reason():
    page = markdown(
        [GOOD, BAD], version="v1.36.2", total=446, expectations={BAD.test: "SCTP is not supported"}, changes=[]
    )
    assert "Kubernetes v1.36.2: 2 of 446 tests ran, 1 passed, 1 failed." in page
    assert "| sig-apps | 1 | 0 | 1 |" in page
    assert "| sig-node | 1 | 1 | 0 |" in page
    assert f"- `{BAD.test}`: SCTP is not supported" in page


def test_a_reason_cannot_break_the_page():
    page = markdown([BAD], version="v1.36.2", total=1, expectations={}, changes=[])
    assert r"it \<did\> not" in page


def test_a_changed_outcome_is_a_difference_and_a_new_test_is_none():
    before = [Result(GOOD.test, Outcome.FAILED, 1.0, "no")]
    assert differences([GOOD, BAD], before) == [f"failed → passed: {GOOD.test}"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{test: gone, reason: because}", "not a conformance test"),
        (f"{{test: '{BAD.test}', reason: ' '}}", "has no reason"),
    ],
)
def test_an_expectation_without_a_test_or_a_reason_is_refused(tmp_path, entry, message):
    path = tmp_path / "expected_failures.yaml"
    path.write_text(f"failures:\n- {entry}\n")
    with pytest.raises(ExpectationError, match=message):
        expected(path, [BAD.test])


def test_the_reason_of_a_failure_has_one_line_and_no_names_of_one_run(tmp_path):
    report = tmp_path / "junit.xml"
    report.write_text(
        textwrap.dedent("""\
        <testsuites><testsuite><testcase name="a"/><testcase name="b"><failure message="pod
        12345678-1234-1234-1234-123456789abc   at 0xc0ffee failed"/></testcase></testsuite></testsuites>
        """)
    )
    assert failure_of(report) == "pod UID at 0x… failed"


def test_a_report_without_a_failure_gives_no_reason(tmp_path):
    report = tmp_path / "junit.xml"
    report.write_text('<testsuites><testsuite><testcase name="a"/></testsuite></testsuites>')
    assert failure_of(report) is None


def test_serial_and_disruptive_tests_run_alone():
    assert is_serial("[sig-apps] Daemon set [Serial] should run [Conformance]")
    assert not is_serial(GOOD.test)


def test_a_list_of_tests_may_have_comments_and_names_only_tests():
    assert listed(f"# why\n\n  {BAD.test}\n", [GOOD.test, BAD.test]) == [BAD.test]
    with pytest.raises(ValueError, match="'no test' is not a conformance test"):
        listed("no test\n", [GOOD.test])


def test_the_quick_part_has_the_fastest_tests_of_each_sig_within_its_time():
    record = [Result(f"[sig-node] {n}", Outcome.PASSED, 30.0) for n in range(20)]
    record += [Result("[sig-apps] slow", Outcome.PASSED, 39.0), Result("[sig-apps] fast", Outcome.PASSED, 1.0)]
    record += [Result("[sig-cli] failed", Outcome.FAILED, 1.0), Result("[sig-auth] [Serial] alone", Outcome.PASSED, 1)]
    record += [Result("[sig-auth] hours", Outcome.PASSED, 3600.0), Result("[sig-gone] gone", Outcome.PASSED, 1.0)]
    tests = [result.test for result in record if "gone" not in result.test]
    chosen = quick(tests, record, workers=1)
    assert {"[sig-apps] fast", "[sig-apps] slow", "[sig-node] 0", "[sig-cli] failed"} <= set(chosen)
    assert not {"[sig-auth] [Serial] alone", "[sig-auth] hours", "[sig-gone] gone"} & set(chosen)
    assert sum(r.seconds for r in record if r.test in chosen) <= QUICK_SECONDS
    assert len(quick(tests, record, workers=2)) > len(chosen)


def test_a_few_unexpected_failures_run_again_and_many_or_expected_ones_do_not():
    assert repeated([GOOD, BAD], {}, limit=1) == [BAD.test]
    assert repeated([GOOD, BAD], {}, limit=0) == []
    assert repeated([GOOD, BAD], {BAD.test: "SCTP is not supported"}, limit=1) == []


def test_tests_that_wait_for_schedules_get_more_time():
    assert seconds_allowed("[sig-apps] CronJob should schedule multiple jobs concurrently [Conformance]") > 400
    assert seconds_allowed(GOOD.test) == 300


def test_every_image_has_a_command_and_is_in_the_images_file(tmp_path):
    text = images_file(tmp_path).read_text()
    for image in IMAGES.values():
        assert image.command
        assert all(name in text for name in image.names)
