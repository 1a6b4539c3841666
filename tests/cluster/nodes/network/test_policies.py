"""NetworkPolicies: the rules that follow from the objects, and the packets that the router lets through."""

import random
import socket
from typing import Any

import pytest

from steersman_cluster.nodes.network.policies import PolicyStore, allowed_of
from steersman_cluster.nodes.network.router.packets import flow_key
from steersman_cluster.nodes.network.router.routing import Router
from steersman_cluster.nodes.network.router.services import Endpoint, Service
from steersman_cluster.objects import Object

from .packets import tcp, udp
from .web import Pods, pod, service, until

ADDRESSES = {"web": "10.244.0.1", "db": "10.244.0.2", "other": "10.244.0.3", "far": "10.244.0.4"}
GATEWAY, SERVICE = "10.245.255.254", "10.0.0.7"
SYN_ACK = 18


def packed(address: str) -> bytes:
    return socket.inet_aton(address)


@pytest.fixture
def store() -> PolicyStore:
    made = PolicyStore(namespaces={"shop": {"team": "a"}, "elsewhere": {"team": "b"}})
    for name, address in ADDRESSES.items():
        namespace = "elsewhere" if name == "far" else "shop"
        ports = [{"name": "sql", "containerPort": 3306}]
        made.pods[namespace, name] = {
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "ports": ports}]},
            "status": {"podIP": address, "phase": "Running"},
        }
    return made


def policy(name: str = "p", **spec: Any) -> Object:
    body = {"podSelector": {"matchLabels": {"app": "db"}}, **spec}
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": body}


def router_of(store: PolicyStore, *policies: Object) -> Router:
    for number, each in enumerate(policies):
        store.policies["shop", str(number)] = each
    made = Router(packed(GATEWAY), random.Random(1))
    made.nodes.update({packed(address): "node-1" for address in (*ADDRESSES.values(), GATEWAY)})
    made.policies.set(allowed_of(store))
    return made


def passes(router: Router, packet: bytes) -> bool:
    return router.route(packet, frozenset([packet[12:16]]), 0.0) is not None


def connects(router: Router, source: str, destination: str, port: int = 3306) -> bool:
    """Whether a connection from one Pod to another is allowed, and its reply with it."""
    ours, theirs = (ADDRESSES.get(source, source), 40000), (ADDRESSES.get(destination, destination), port)
    return passes(router, tcp(ours, theirs)) and passes(router, tcp(theirs, ours, SYN_ACK))


def test_a_policy_without_rules_isolates_the_pods_that_it_selects(store: PolicyStore) -> None:
    router = router_of(store, policy())
    assert not connects(router, "web", "db")
    assert connects(router, "db", "web")
    assert connects(router, "web", "other")
    assert connects(router, GATEWAY, "db")


def test_replies_do_not_open_the_way_for_new_connections(store: PolicyStore) -> None:
    router = router_of(store, policy())
    assert connects(router, "db", "web")
    assert not passes(router, tcp((ADDRESSES["web"], 3306), (ADDRESSES["db"], 40001)))


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ({"podSelector": {"matchLabels": {"app": "web"}}}, {"web"}),
        ({"podSelector": {}}, {"web", "other"}),
        ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}, {"other"}),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, {"far"}),
        ({"namespaceSelector": {}}, {"web", "other", "far"}),
        ({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "far"}}}, {"far"}),
        ({"ipBlock": {"cidr": "10.244.0.0/24", "except": ["10.244.0.3/32"]}}, {"web", "far"}),
    ],
)
def test_peers_are_selected_by_labels_and_networks(store: PolicyStore, peer: Object, allowed: set[str]) -> None:
    router = router_of(store, policy(ingress=[{"from": [peer]}]))
    assert {name for name in ("web", "other", "far") if connects(router, name, "db")} == allowed


def test_ports_may_be_numbers_ranges_and_names(store: PolicyStore) -> None:
    ports = [{"port": "sql"}, {"port": 8000, "endPort": 8010}, {"protocol": "UDP", "port": 53}]
    router = router_of(store, policy(ingress=[{"ports": ports}]))
    assert [p for p in (53, 3306, 7999, 8000, 8010, 8011) if connects(router, "web", "db", p)] == [3306, 8000, 8010]
    assert passes(router, udp((ADDRESSES["web"], 40000), (ADDRESSES["db"], 53)))


def test_policies_add_up(store: PolicyStore) -> None:
    to_web, to_other = ([{"from": [{"podSelector": {"matchLabels": {"app": name}}}]}] for name in ("web", "other"))
    router = router_of(store, policy(ingress=to_web), policy(ingress=to_other))
    assert connects(router, "web", "db")
    assert connects(router, "other", "db")
    assert not connects(router, "far", "db")


def test_egress_is_checked_at_the_source(store: PolicyStore) -> None:
    egress = [{"to": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": "sql"}]}]
    router = router_of(store, policy(policyTypes=["Egress"], egress=egress))
    assert connects(router, "db", "web")
    assert not connects(router, "db", "web", 80)
    assert not connects(router, "db", "other")
    assert connects(router, "other", "db")


def test_a_connection_through_a_service_is_one_to_the_pod_behind_it(store: PolicyStore) -> None:
    router = router_of(store, policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]))
    endpoint = Endpoint(packed(ADDRESSES["db"]), (3306).to_bytes(2))
    router.services.set("db", {b"\x06" + packed(SERVICE) + (80).to_bytes(2): Service((endpoint,))})
    request = tcp((ADDRESSES["web"], 40000), (SERVICE, 80))
    assert flow_key(request) is not None
    assert passes(router, request)
    assert passes(router, tcp((ADDRESSES["db"], 3306), (ADDRESSES["web"], 40000), SYN_ACK))
    assert not passes(router, tcp((ADDRESSES["other"], 40000), (SERVICE, 80)))


def test_a_pod_that_has_ended_is_no_peer(store: PolicyStore) -> None:
    store.pods["shop", "web"]["status"]["phase"] = "Succeeded"
    router = router_of(store, policy(ingress=[{"from": [{"podSelector": {}}]}]))
    assert not connects(router, "web", "db")


@pytest.mark.slow
def test_a_policy_holds_for_running_pods_as_long_as_it_exists(pods: Pods) -> None:
    cluster = pods.cluster
    cluster.apply(pod("server"), pod("friend"), pod("stranger"), service("server", "server"))
    pods.ready("server", "friend", "stranger")

    def reached(name: str) -> bool:
        return "found" in pods.ask(name, "fetch/http:||server|")

    until(lambda: reached("stranger"), bool)
    rule = {"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}
    cluster.apply(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "server"},
            "spec": {"podSelector": {"matchLabels": {"app": "server"}}, "ingress": [rule]},
        }
    )
    until(lambda: reached("stranger"), lambda found: not found)
    assert reached("friend")
    assert pods.ask("server")["host"] == "server"
    cluster.delete("networkpolicy", "server")
    until(lambda: reached("stranger"), bool)
