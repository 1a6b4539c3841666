"""Jobs: what both servers take and refuse of a Job's status, and of lists of indexes."""

from typing import Any

import pytest

from .harness import MERGE, Both

JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
INDEXED = {"completionMode": "Indexed", "completions": 5, "parallelism": 2}


def job(**spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    return {"metadata": {"name": "work"}, "spec": {"template": {"spec": pod}, **spec}}


def conditions(*types: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": status} for name in types]}


COMPLETE = {**conditions("SuccessCriteriaMet", "Complete"), "startTime": START, "completionTime": END}
FAILED = {**conditions("FailureTarget", "Failed"), "startTime": START}
HISTORIES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "negative": ({}, [{"active": -1, "ready": -1, "succeeded": -1, "failed": -2, "terminating": -1}]),
    "uncounted": (
        {},
        [
            {"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}},
            {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]}},
        ],
    ),
    "both ends": ({}, [{**FAILED, **conditions("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")}]),
    "complete": ({}, [conditions("Complete"), COMPLETE, {"active": 1}, conditions("Complete"), {"startTime": END}]),
    "failed": ({}, [conditions("Failed"), FAILED, {"completionTime": END}, conditions("FailureTarget"), {"ready": 1}]),
    "too early": ({}, [{**COMPLETE, "startTime": END, "completionTime": START}]),
    "at work": ({}, [{**COMPLETE, "active": 2, "terminating": 1, "uncountedTerminatedPods": {"failed": ["x"]}}]),
    "counters": ({}, [{"failed": 2, "succeeded": 3, "active": 2}, {"failed": 1}, {"succeeded": 1}, {"ready": 5}]),
    "elastic": (
        {"completionMode": "Indexed", "completions": 2, "parallelism": 2},
        [{"succeeded": 2, "completedIndexes": "0,1"}, {"succeeded": 1, "completedIndexes": "0"}],
    ),
    "completed indexes": (
        INDEXED,
        [{"completedIndexes": text} for text in ("1-2-3", "a", "1,x", "9", "3,1", "2-2", "1-9", "+1", "", "0,2-4")],
    ),
    "failed indexes": (
        {**INDEXED, "backoffLimitPerIndex": 1},
        [{"failedIndexes": text, "completedIndexes": "0-1"} for text in ("7", "1,3", "x,0", "2-3", "")],
    ),
    "indexes of none": ({}, [{"completedIndexes": "1"}, {"failedIndexes": "1"}, {"failedIndexes": ""}]),
    "success policy": (
        {**INDEXED, "successPolicy": {"rules": [{"succeededCount": 1}]}},
        [
            {**conditions("Complete"), "startTime": START, "completionTime": END},
            {**conditions("SuccessCriteriaMet", "Failed", "FailureTarget"), "startTime": START},
            conditions("SuccessCriteriaMet"),
            conditions("SuccessCriteriaMet", status="False"),
        ],
    ),
    "suspension": (
        {"suspend": True},
        [
            {"startTime": START},
            {"startTime": END, **conditions("Suspended")},
            {"startTime": START, **conditions("Suspended", status="False")},
        ],
    ),
    "started": ({}, [{"startTime": START}, {"startTime": END}, {"startTime": None}]),
}  # fmt: skip


@pytest.mark.parametrize("history", list(HISTORIES))
async def test_a_status_is_taken_or_refused_alike(both: Both, history: str):
    spec, statuses = HISTORIES[history]
    await both.same("POST", JOBS, job(**spec))
    for status in statuses:
        await both.same("PATCH", f"{JOBS}/work/status", {"status": status}, content_type=MERGE)


@pytest.mark.parametrize("rule", [{"succeededIndexes": "1-9"}, {"succeededIndexes": "1-2", "succeededCount": 3},
    {"succeededIndexes": "x", "succeededCount": 1}, {"succeededIndexes": "0,3-4", "succeededCount": 2},
    {"succeededIndexes": ""}, {"succeededCount": 9}, {}])  # fmt: skip
async def test_a_success_policy_is_taken_or_refused_alike(both: Both, rule: dict[str, Any]):
    await both.same("POST", JOBS, job(**INDEXED, successPolicy={"rules": [rule]}))
