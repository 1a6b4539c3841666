"""Tables: the columns of every kind, and the cells of objects of many of them. Both servers alike."""

import json
import re
from collections import defaultdict
from typing import Any

import pytest

from tests.cluster.kinds import cases

from .harness import Answer, Both, compare
from .kinds import _renamed
from .managed import define
from .steps import DEPLOYMENTS, PODS, config_map, deployment, play, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
GROUPS = (
    cases.CONFIG, cases.SERVICES, cases.OBJECTS, cases.VOLUMES, cases.POLICIES, cases.RBAC_CASES,
)  # fmt: skip
ALLOCATED = re.compile(r"10\.(\d+\.)+\d+|(?<=:)3[0-2]\d{3}(?=/)|\b\d+(s|m|h|d)(\d+[a-z])?\b")
TYPES = {"Cluster-IP", "External-IP"}


def shown(answer: Answer) -> Answer:
    """The table without descriptions, and without what each server says in its own way: ages, addresses."""
    if answer.code != 200:
        return answer
    body = dict(answer.body)
    body["columnDefinitions"] = [
        {key: value for key, value in column.items() if key != "description"}
        for column in body["columnDefinitions"] or ()
    ]
    body["rows"] = [
        [ALLOCATED.sub("<own>", cell) if isinstance(cell, str) else cell for cell in row["cells"]]
        for row in body["rows"] or ()
    ]
    return Answer(answer.code, body, answer.warnings, answer.content_type)


async def same_table(both: Both, path: str) -> Answer:
    embedded, real = await both.each("GET", path, headers={"Accept": TABLE})
    compare(path, shown(embedded), shown(real))
    return embedded


async def test_every_kind_has_the_same_columns(both: Both):
    groups = await both.real.ask("GET", "/apis")
    versions = ["/api/v1", *(f"/apis/{v['groupVersion']}" for group in groups["groups"] for v in group["versions"])]
    differences: list[str] = []
    count = 0
    for version in versions:
        group = version.removeprefix("/apis/").partition("/")[0]
        if "." in group and not group.endswith(".k8s.io"):
            continue  # a custom resource of another test, which the server may be about to forget
        for resource in (await both.real.ask("GET", version))["resources"]:
            if "list" not in resource["verbs"] or resource["name"] == "componentstatuses":
                continue
            where = f"/namespaces/{both.namespace}" if resource["namespaced"] else ""
            path = f"{version}{where}/{resource['name']}?fieldSelector=metadata.name%3Dnothing-has-this-name"
            embedded, real = await both.each("GET", path, headers={"Accept": TABLE})
            count += 1
            try:
                compare(path, shown(embedded), shown(real))
            except AssertionError as error:
                differences.append(str(error)[:800])
    assert count >= 60
    assert not differences, "\n\n".join(differences)


@pytest.mark.parametrize("group", range(len(GROUPS)))
async def test_cells(both: Both, group: int):
    made: dict[str, list[str]] = defaultdict(list)
    for case in GROUPS[group]:
        if case.method != "POST" or "/namespaces/t/" not in case.path or len(str(case.body)) > 500_000:
            continue
        path = case.path.replace("/namespaces/t/", f"/namespaces/{both.namespace}/")
        body = _renamed(case.body, both.namespace)
        embedded, real = await both.each("POST", path, body)
        if embedded.code == real.code == 201 and not path.endswith(("reviews", "token")):
            made[path].append(embedded["metadata"]["name"])
    assert made
    differences: list[str] = []
    for path in made:
        if path.startswith("/apis/autoscaling/v1/"):
            continue  # the order of metrics that version 1 does not know
        try:
            await same_table(both, path)
        except AssertionError as error:
            differences.append(str(error)[:1500])
    assert not differences, "\n\n".join(differences)


STATUSES: list[dict[str, Any]] = [
    {"phase": "Running", "podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}], "containerStatuses": [
        {"name": "a", "ready": True, "restartCount": 3, "image": "i", "imageID": "", "state": {"running": {}},
         "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2020-01-01T00:00:00Z"}}}]},
    {"phase": "Running", "containerStatuses": [
        {"name": "a", "ready": False, "restartCount": 0, "image": "i", "imageID": "",
         "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
    {"phase": "Failed", "reason": "Evicted"},
    {"phase": "Succeeded", "containerStatuses": [
        {"name": "a", "ready": False, "restartCount": 0, "image": "i", "imageID": "",
         "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]},
    {"phase": "Failed", "containerStatuses": [
        {"name": "a", "ready": False, "restartCount": 0, "image": "i", "imageID": "",
         "state": {"terminated": {"exitCode": 137, "signal": 9}}}]},
    {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
]  # fmt: skip


@pytest.mark.parametrize("status", STATUSES, ids=range(len(STATUSES)))
async def test_cells_of_pods(both: Both, status: dict[str, Any]):
    await play(both, ("POST", PODS, pod(spec={"nodeName": "n"})))
    await play(both, ("STRATEGIC", f"{PODS}/web/status", {"status": status}))
    await same_table(both, PODS)
    await same_table(both, f"{PODS}/web")
    await play(both, ("DELETE", f"{PODS}/web"))
    await same_table(both, PODS)


async def test_cells_of_deployments(both: Both):
    await play(both, ("POST", DEPLOYMENTS, deployment(spec={"replicas": 3})))
    await same_table(both, DEPLOYMENTS)
    status = {"replicas": 3, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}
    await play(both, ("MERGE", f"{DEPLOYMENTS}/web/status", {"status": status}))
    await same_table(both, DEPLOYMENTS)


async def test_custom_resources_have_name_and_age(both: Both):
    path = await define(both)
    kind = (await both.embedded.ask("GET", path.replace("{ns}", both.namespace)))["kind"].removesuffix("List")
    version = path.split("/namespaces")[0].removeprefix("/apis/")
    await play(both, ("POST", path, {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": {}}))
    answer = await same_table(both, path)
    assert [column["name"] for column in answer["columnDefinitions"]] == ["Name", "Age"]


@pytest.mark.parametrize("include", ["None", "Metadata", "Object", "Nope", ""])
async def test_rows_carry_what_is_asked(both: Both, include: str):
    path = "/api/v1/namespaces/{ns}/configmaps"
    await both.each("POST", path, config_map(data={"a": "1"}))
    ignore = ("columnDefinitions.*.description", "rows.*.cells")
    for where in (path, f"{path}/web"):
        await both.same("GET", f"{where}?includeObject={include}", headers={"Accept": TABLE}, ignore=ignore)


async def test_tables_come_in_pages(both: Both):
    path = "/api/v1/namespaces/{ns}/configmaps"
    for name in "abc":
        await both.each("POST", path, config_map(name))
    answer = await same_table(both, f"{path}?limit=2")
    assert json.dumps(answer["metadata"]).count("continue") == 1
