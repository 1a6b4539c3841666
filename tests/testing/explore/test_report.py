"""The table of the explorer's results on the page is that of the committed report."""

import json

from .report import PAGE, REPORT, page_with, rendered


def test_the_table_on_the_page_is_that_of_the_report() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with(rendered(json.loads(REPORT.read_text(encoding="utf-8"))), page)


def test_every_bug_of_the_report_was_found_within_a_minute_of_cpu() -> None:
    rows = json.loads(REPORT.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 16
    assert all(row["found"] and row["cpuSeconds"] < 60 for row in rows)


def test_a_plan_of_helloapp_takes_at_most_50_milliseconds_of_cpu_on_an_idle_machine() -> None:
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    assert report["helloapp"]["runs"] > 50
    assert report["helloapp"]["cpuMillisecondsPerPlan"] <= 50 or report["note"] != "idle machine"
