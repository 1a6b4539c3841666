"""The node of a Pod and the victims of preemption: decisions without a cluster."""

from typing import Any, cast

import pytest

from steersman.k8s import Node, Pod, PodDisruptionBudget
from steersman.models import OwnerReference, from_dict, replace
from steersman.operator import Context
from steersman_cluster.controllers.scheduling.node_fit import requests_of
from steersman_cluster.controllers.scheduling.placement import (
    NO_VICTIMS,
    Placement,
    Victims,
    least_disruptive,
    unplaced,
)
from steersman_cluster.controllers.scheduling.scheduler import NodeUsage, Scheduler

ZONE = "topology.kubernetes.io/zone"


def node(name: str, zone: str = "a", cpu: str = "4") -> Node:
    allocatable = {"cpu": cpu, "pods": "10"}
    return from_dict(Node, {"metadata": {"name": name, "labels": {ZONE: zone}}, "status": {"allocatable": allocatable}})


def pod(name: str, cpu: str = "1", priority: int = 0, labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {"app": "web"}}
    return from_dict(Pod, {"metadata": metadata, "spec": {"containers": [container], "priority": priority, **spec}})


def placing(new: Pod, nodes: list[Node], bound: dict[str, list[Pod]]) -> Placement:
    def used(name: str) -> dict[str, int]:
        total: dict[str, int] = {}
        for each in bound.get(name, []):
            for resource, amount in requests_of(each).items():
                total[resource] = total.get(resource, 0) + amount
        return total

    return Placement(new, nodes, used, lambda: [(each, name) for name, pods in bound.items() for each in pods])


def spread(when: str = "DoNotSchedule", **more: Any) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    return [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector, **more}]


@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_a_pod_goes_where_fewer_of_its_likes_are(when: str):
    nodes = [node("n1", "a"), node("n2", "b")]
    choice = placing(pod("new", topologySpreadConstraints=spread(when)), nodes, {"n1": [pod("one")]})
    assert choice.best([n for n in nodes if choice.problem(n) is None]) == "n2"


def owned(name: str, **spec: Any) -> Pod:
    made = pod(name, **spec)
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="set", controller=True)
    return replace(made, metadata=replace(made.metadata, owner_references=[owner]))


def test_pods_of_one_controller_are_spread_over_hosts_and_zones_by_default():
    nodes = [node("n1", "a", "100"), node("n2", "a", "100"), node("n3", "b", "100"), node("n4", "b", "100")]
    usage, busy = NodeUsage(), [pod(f"other{n}", labels={"app": "other"}) for n in range(3)]
    for other in busy:
        usage.count(other, "n3")
    found: list[str] = []
    for index in range(4):
        new = owned(f"web{index}")
        choice = Placement(new, nodes, usage.used, list, (), usage.peers(new))
        found.append(choice.best(nodes))
        usage.count(new, found[-1])
    assert sorted(found) == ["n1", "n2", "n3", "n4"]
    assert {found[0][-1], found[1][-1]} & {"3", "4"}, "the second Pod goes to the other zone"


def test_a_pod_that_has_left_counts_no_more_and_constraints_replace_the_default():
    usage = NodeUsage()
    usage.count(owned("one"), "n1")
    assert usage.peers(owned("two")) == {"n1": 1}
    assert usage.peers(owned("three", topologySpreadConstraints=spread())) == {}
    usage.remove("one")
    assert usage.peers(owned("two")) == {}


def test_a_place_that_would_be_too_full_is_refused_unless_likes_leave():
    nodes = [node("n1", "a"), node("n2", "b")]
    there = pod("one")
    choice = placing(pod("new", topologySpreadConstraints=spread()), nodes, {"n1": [there]})
    assert choice.problem(nodes[0]) == ("node(s) didn't match pod topology spread constraints", True)
    assert choice.problem(nodes[0], [there]) is None


def test_the_least_important_make_room_and_no_more_than_must():
    here = node("n1")
    bound = {"n1": [pod("low", "2", 1), pod("middle", "2", 5)]}
    victims = placing(pod("new", "2", 10), [here], bound).victims(here, [])
    assert isinstance(victims, Victims)
    assert [each.metadata.name for each in victims.pods] == ["low"]


def test_who_is_as_important_makes_no_room():
    here = node("n1")
    assert placing(pod("new", "3", 5), [here], {"n1": [pod("other", "3", 5)]}).victims(here, []) == NO_VICTIMS


def test_a_budget_protects_its_pods_where_others_can_leave():
    body = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }
    budget = from_dict(PodDisruptionBudget, body)
    nodes = [node("n1"), node("n2")]
    free = pod("free", "3", 3)
    free = replace(free, metadata=replace(free.metadata, namespace="other"))
    choice = placing(pod("new", "3", 10), nodes, {"n1": [pod("guarded", "3", 1)], "n2": [free]})
    found = [choice.victims(each, [budget]) for each in nodes]
    chosen = least_disruptive([each for each in found if isinstance(each, Victims)])
    assert chosen is not None
    assert (chosen.node, chosen.broken) == ("n2", 0)


def test_a_pod_that_fits_nowhere_is_told_how_many_nodes_are_why():
    text = unplaced(3, ["Insufficient cpu", "x", "Insufficient cpu"], {NO_VICTIMS: 3})
    assert text == (
        "0/3 nodes are available: 1 x, 2 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/3 nodes are available: 3 No preemption victims found for incoming pod."
    )


async def test_a_pod_that_is_bound_already_is_not_kept_out_by_its_own_booking():
    """The watch may bring a Pod's binding later than another event that reconciles the Pod."""
    here, new = node("n1", cpu="1"), pod("new", "1")
    scheduler = Scheduler()
    scheduler.usage.count(new, "n1")
    await scheduler.reconcile(
        replace(new, status=replace(new.status, phase="Pending")), cast(Context, _Untouched(here))
    )


class _Untouched:
    """A context that must not be used."""

    def __init__(self, here: Node) -> None:
        self._here = here

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"the scheduler used ctx.{name} for a Pod that is bound")
