"""The table of the explorer's results on the page is that of the committed report."""

import json

from .report import PAGE, PLAN_MILLISECONDS, REPORT, page_with, rendered


def test_the_table_on_the_page_is_that_of_the_report() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with(rendered(json.loads(REPORT.read_text(encoding="utf-8"))), page)


def test_every_bug_of_the_report_was_found_within_a_minute_of_cpu() -> None:
    rows = json.loads(REPORT.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 16
    assert all(row["found"] and row["cpuSeconds"] < 60 for row in rows)


def test_the_page_compares_the_cost_of_a_plan_of_helloapp_with_its_objective() -> None:
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    assert report["helloapp"]["runs"] > 50
    for milliseconds, verdict in ((PLAN_MILLISECONDS, "within"), (PLAN_MILLISECONDS + 1, "above")):
        helloapp = {**report["helloapp"], "cpuMillisecondsPerPlan": milliseconds}
        text = f"{milliseconds} ms, {verdict} the objective"
        assert text in rendered({**report, "helloapp": helloapp})
