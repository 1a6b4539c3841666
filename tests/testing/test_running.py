"""Operators beside a test, as the identity that they declare."""

from __future__ import annotations

import threading

import pytest

from steersman.testing.cluster import Cluster
from steersman.testing.running import Operators, operator_of

from . import webs


def test_an_operator_runs_under_the_rights_that_it_declares(cluster: Cluster, operator: Operators) -> None:
    running = operator(webs.operator)
    cluster.apply(webs.web("one", "red"))
    cluster.wait("web", "one", lambda obj: obj.get("status", {}).get("colour") == "red")
    running.wait_idle()

    assert cluster.get("configmap", "one")["data"] == {"colour": "red"}
    assert {(r.controller, r.name, r.error) for r in running.reconciles} == {("web", "one", None)}
    assert any(line["event"] == "painted" and line["colour"] == "red" for line in running.log)
    assert running.user == f"system:serviceaccount:{cluster.namespace}:webs"
    cluster.audit.assert_writes(["patch configmaps/one", "patch webs/one/status"], user=running.user)


def test_an_idle_operator_writes_nothing(cluster: Cluster, operator: Operators) -> None:
    cluster.apply(*webs_crds(), webs.web("one"))
    running = operator(webs.operator)
    cluster.wait("web", "one", lambda obj: "status" in obj)
    running.wait_idle()
    cluster.audit.begin()

    cluster.patch("web", "one", {"metadata": {"labels": {"a": "b"}}})
    running.wait_idle()
    cluster.audit.assert_no_writes(user=running.user)
    cluster.audit.assert_at_most(0, user=running.user, verbs=["get", "list"])


def test_an_operator_of_another_namespace_is_left_alone(cluster: Cluster, operator: Operators, namespace: str) -> None:
    running = operator(webs.operator, namespaces=[namespace])
    cluster.apply(webs.web("here"))
    cluster.apply(webs.web("there"), namespace=namespace)
    cluster.wait("web", "there", lambda obj: "status" in obj, namespace=namespace)
    running.wait_idle()

    assert [r.name for r in running.reconciles if r.name == "here"] == []


def test_what_an_operator_may_not_do_is_named(cluster: Cluster) -> None:
    operators = Operators(cluster)
    try:
        running = operators(webs.greedy)
        cluster.apply(webs.web("one"))
        running.wait_idle(within=5)
    finally:
        operators.close()

    assert running.reconciles[0].error is not None
    assert f"get secrets in {cluster.namespace}" in operators.verdict()
    assert "operator.permit" in operators.verdict()


def test_a_stopped_operator_leaves_nothing_behind(cluster: Cluster) -> None:
    before = set(threading.enumerate())
    operators = Operators(cluster)
    running = operators(webs.operator)
    assert running.running

    operators.close()
    assert not running.running
    assert {t.name for t in set(threading.enumerate()) - before} <= {"cluster-objects"}
    assert [r for r in cluster.list("clusterroles") if cluster.namespace in r["metadata"]["name"]] == []


def test_an_operator_is_found_by_its_name() -> None:
    assert operator_of(webs.operator) is webs.operator
    with pytest.raises(TypeError, match="has 2 operators"):
        operator_of(webs)


def webs_crds() -> list[dict[str, object]]:
    from steersman.manifests import crds

    return crds(webs.operator)
