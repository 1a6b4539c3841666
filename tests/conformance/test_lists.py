"""Lists: pages, versions, selectors and errors. Both servers answer alike."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from steersman.testing import eventually

from .harness import Answer, Both, compare
from .steps import CONFIG_MAPS, PODS, config_map, play, pod

LABELS: dict[str, dict[str, str]] = {
    "a": {"app": "x", "n": "1"},
    "b": {"app": "y", "n": "5"},
    "c": {"app": "x", "n": "ten"},
    "d": {},
    "e": {"empty": "", "example.com/tier": "z"},
}


async def fill(both: Both) -> None:
    for name, labels in LABELS.items():
        await both.each("POST", CONFIG_MAPS, config_map(name, labels=labels))


def names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


SELECTORS = [
    "app=x", "app==x", "app!=x", "app", "!app", "app in (x,y)", "app notin (x)", "app in (x),n", "app in (x), n!=1",
    "n>2", "n<2", "n>x", "n>-1", "empty=", "empty in ()", "empty in (,)", "empty in (,a)", "empty", "!empty,!app",
    "example.com/tier=z", "example.com/=z", "app = x", " app  in ( x , y ) ", "", ",", "app,", ",app", "app=x,",
    "app=x,,n", "=x", "==", "!", "!app=x", "!!app", "app in", "app in x", "app in (x", "app in (x y)", "app in )",
    "app ~ x",
    "app x", "app=x y", "app=x=y", "(", ")", "app=a/b", "app=" + "a" * 64, "a" * 64 + "=x", "-a=x", "a b", "app notin",
    "app gt 3", "in", "notin", "in in (in)", "app in (notin,in)", "app>", "app<1,n>0", "n>99999999999999999999",
    "app=\u00e4",
    "app===x", "app=!x", "app in (x,y,)", "app in (,,x)", "app in (x,,y)", "app in (=)",
]  # fmt: skip


@pytest.mark.parametrize("group", range(4))
async def test_label_selectors_mean_the_same(both: Both, group: int):
    await fill(both)
    await same_queries(both, [f"labelSelector={quote(each)}" for each in SELECTORS[group::4]])


FIELDS = [
    "metadata.name=a", "metadata.name==a", "metadata.name!=a", "metadata.name=a,metadata.name=b",
    "metadata.namespace={ns}",
    "metadata.namespace=other", "metadata.name", "data=x", "=x", "metadata.name=", "metadata.name=a,", ",",
    "metadata.name>a",
    "metadata.name in (a)", "metadata.labels.app=x", r"metadata.name=a\,b", r"metadata.name=a\x",
    "metadata.name=a=b", "!metadata.name",
]  # fmt: skip


async def test_field_selectors_mean_the_same(both: Both):
    await fill(both)
    await same_queries(both, [f"fieldSelector={quote(each)}" for each in FIELDS])


POD_FIELDS = [
    "spec.nodeName=n", "spec.nodeName=", "status.phase=Pending", "status.phase!=Pending", "spec.restartPolicy=Always",
    "spec.schedulerName=default-scheduler", "spec.serviceAccountName=", "status.podIP=", "spec.hostNetwork=false",
    "spec.nodeName=n,metadata.name=a", "spec.containers=a", "status.nominatedNodeName=", "spec.hostNetwork=true",
]  # fmt: skip


async def test_field_selectors_of_pods_mean_the_same(both: Both):
    await play(both, ("POST", PODS, pod("a", spec={"nodeName": "n"})), ("POST", PODS, pod("b")))
    await same_queries(both, [f"fieldSelector={quote(each)}" for each in POD_FIELDS], PODS)


PAGES = [
    "limit=2", "limit=0", "limit=-1", "limit=x", "limit=5", "limit=6", "limit=1.5", "limit=99999999999999999999",
    "limit=2&labelSelector=app%3Dx", "limit=1&labelSelector=app%3Dx", "limit=2&fieldSelector=metadata.name%21%3Da",
    "continue=nonsense", "continue=%7B%7D", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "limit=2&resourceVersion=0",
    "limit=2&resourceVersion=0&resourceVersionMatch=NotOlderThan", "limit=&continue=", "timeoutSeconds=x",
    "timeoutSeconds=1",
]  # fmt: skip


async def test_pages_are_alike(both: Both):
    await fill(both)
    await same_queries(both, PAGES)


VERSIONS = [
    "resourceVersion=0", "resourceVersion=1", "resourceVersion=x", "resourceVersion=-1", "resourceVersion=1.0",
    "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Nope",
    "resourceVersion=0&resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "resourceVersion=1&resourceVersionMatch=NotOlderThan", "resourceVersion=1&resourceVersionMatch=Nope",
    "resourceVersion=1&resourceVersionMatch=exact", "resourceVersion=1&resourceVersionMatch=NotOlderThan&continue=x",
    "resourceVersion=5&continue=x", "sendInitialEvents=true", "sendInitialEvents=false", "allowWatchBookmarks=true",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "watch=false", "watch=0", "unknown=1",
]  # fmt: skip


async def test_versions_are_asked_for_alike(both: Both):
    await fill(both)

    async def agree() -> bool:  # any version will do: kube-apiserver answers from a cache that may lag
        embedded, real = await both.each("GET", f"{CONFIG_MAPS}?resourceVersion=0")
        return len(embedded.body["items"]) == len(real.body["items"])

    await eventually(agree, what="the real server's cache holds all")
    await same_queries(both, VERSIONS)


async def same_queries(both: Both, queries: list[str], path: str = CONFIG_MAPS, ignore: tuple[str, ...] = ()) -> None:
    """All at once; fails with everything that differs."""
    differences: list[str] = []
    for query in queries:
        try:
            await both.same("GET", f"{path}?{query}", ignore=ignore)
        except AssertionError as error:
            differences.append(str(error))
    assert not differences, "\n\n".join(differences)


async def each_with_own(both: Both, query: str, values: tuple[Any, Any], path: str = CONFIG_MAPS) -> Answer:
    """The same request with a value (a version, a token) that each server gave itself."""
    embedded, real = await asyncio.gather(
        *(
            server.ask("GET", path.replace("{ns}", both.namespace) + "?" + query.replace("{}", quote(str(value))))
            for server, value in zip(both.servers, values, strict=True)
        )
    )
    compare(query, embedded, real)
    return embedded


async def test_pages_are_of_one_moment(both: Both):
    await fill(both)
    first = await both.each("GET", f"{CONFIG_MAPS}?limit=2")
    tokens = (first[0]["metadata"]["continue"], first[1]["metadata"]["continue"])
    await both.each("DELETE", f"{CONFIG_MAPS}/d")
    await both.each("POST", CONFIG_MAPS, config_map("bb"))
    await both.each("PATCH", f"{CONFIG_MAPS}/c", {"data": {"new": "1"}}, content_type="application/merge-patch+json")
    rest = await each_with_own(both, "limit=2&continue={}", tokens)
    assert names(rest) == ["c", "d"]
    assert "data" not in rest["items"][0]
    assert rest["metadata"]["remainingItemCount"] == 1
    everything = await each_with_own(both, "continue={}", tokens)
    assert names(everything) == ["c", "d", "e"]


async def test_lists_of_the_past(both: Both):
    await fill(both)
    then = await both.each("GET", CONFIG_MAPS)
    versions = (then[0]["metadata"]["resourceVersion"], then[1]["metadata"]["resourceVersion"])
    await both.each("DELETE", f"{CONFIG_MAPS}/a")
    exact = await each_with_own(both, "resourceVersion={}&resourceVersionMatch=Exact", versions)
    assert names(exact) == ["a", "b", "c", "d", "e"]
    newer = await each_with_own(both, "resourceVersion={}&resourceVersionMatch=NotOlderThan", versions)
    assert names(newer) == ["b", "c", "d", "e"]
    await each_with_own(both, "resourceVersion={}", versions)
    await each_with_own(both, "resourceVersion={}&limit=2", versions)
    await each_with_own(both, "resourceVersion={}&limit=2&resourceVersionMatch=NotOlderThan", versions)
    await each_with_own(both, "resourceVersion={}&resourceVersionMatch=Exact&limit=2", versions)


async def test_lists_of_the_future_are_refused(both: Both):
    embedded, real = await both.each("GET", f"{CONFIG_MAPS}?resourceVersion=999999999&resourceVersionMatch=Exact")
    assert (embedded.code, embedded["reason"]) == (real.code, real["reason"])


async def test_lists_of_all_namespaces(both: Both):
    await both.each("POST", CONFIG_MAPS, config_map(labels={"only": "{ns}"}))
    found = await both.same("GET", "/api/v1/configmaps?labelSelector=only%3D{ns}")
    assert names(found) == ["web"]
    await both.same("GET", "/api/v1/configmaps?fieldSelector=metadata.namespace%3D{ns}")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/{ns}/pods", "/api/v1/namespaces/{ns}/services", "/apis/apps/v1/namespaces/{ns}/deployments",
        "/apis/batch/v1/namespaces/{ns}/jobs", "/api/v1/namespaces/{ns}/events",
        "/apis/events.k8s.io/v1/namespaces/{ns}/events", "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
        "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers", "/apis/storage.k8s.io/v1/csidrivers",
        "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices", "/apis/node.k8s.io/v1/runtimeclasses",
        "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    ],
)  # fmt: skip
async def test_empty_lists_are_lists(both: Both, path: str):
    await both.same("GET", path)
