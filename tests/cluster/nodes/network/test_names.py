"""DNS names: the records of the Kubernetes DNS specification, and the server's messages."""

import dns.flags
import dns.message
import dns.rcode
import pytest

from steersman_cluster.nodes.network.dnsserver import answer
from steersman_cluster.nodes.network.names import Answer, lookup
from steersman_cluster.nodes.network.services import ServiceStore, entries_of
from steersman_cluster.objects import Object


def service(name: str, **spec: object) -> Object:
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"ports": ports, **spec}}


def slice_of(name: str, *endpoints: Object, suffix: str = "1") -> Object:
    return {
        "metadata": {
            "name": f"{name}-{suffix}", "namespace": "shop", "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "dns", "port": 5353, "protocol": "UDP"}],
    }  # fmt: skip


@pytest.fixture
def store() -> ServiceStore:
    made = ServiceStore()
    made.put_service(service("web", clusterIP="10.0.0.7", clusterIPs=["10.0.0.7"]))
    made.put_slice(slice_of("web", {"addresses": ["10.244.0.9"], "conditions": {"ready": True}}))
    made.put_service(service("db", clusterIP="None", clusterIPs=["None"]))
    made.put_slice(
        slice_of(
            "db",
            {"addresses": ["10.244.0.1"], "hostname": "db-0", "conditions": {"ready": True}},
            {"addresses": ["10.244.0.2"], "hostname": "db-1", "conditions": {"ready": False}},
            {"addresses": ["10.244.0.3"], "conditions": {}},
        )
    )
    made.put_service(service("outside", type="ExternalName", externalName="example.org"))
    made.put_service(service("alias", type="ExternalName", externalName="web.shop.svc.cluster.local"))
    return made


def data(found: Answer) -> list[str]:
    assert found.exists
    return [f"{record.type} {record.data}" for record in found.records]


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("web.shop.svc.cluster.local", "A", ["A 10.0.0.7"]),
        ("WEB.Shop.svc.cluster.local", "A", ["A 10.0.0.7"]),
        ("web.shop.svc.cluster.local", "AAAA", []),
        ("db.shop.svc.cluster.local", "A", ["A 10.244.0.1", "A 10.244.0.3"]),
        ("db-0.db.shop.svc.cluster.local", "A", ["A 10.244.0.1"]),
        ("10-244-0-3.db.shop.svc.cluster.local", "A", ["A 10.244.0.3"]),
        ("_http._tcp.web.shop.svc.cluster.local", "SRV", ["SRV 0 100 80 web.shop.svc.cluster.local."]),
        (
            "_dns._udp.db.shop.svc.cluster.local",
            "SRV",
            [
                "SRV 0 50 5353 db-0.db.shop.svc.cluster.local.",
                "SRV 0 50 5353 10-244-0-3.db.shop.svc.cluster.local.",
            ],
        ),
        ("outside.shop.svc.cluster.local", "A", ["CNAME example.org."]),
        ("alias.shop.svc.cluster.local", "A", ["CNAME web.shop.svc.cluster.local.", "A 10.0.0.7"]),
        ("10-244-7-8.shop.pod.cluster.local", "A", ["A 10.244.7.8"]),
        ("7.0.0.10.in-addr.arpa", "PTR", ["PTR web.shop.svc.cluster.local."]),
        ("1.0.244.10.in-addr.arpa", "PTR", ["PTR db-0.db.shop.svc.cluster.local."]),
        ("dns-version.cluster.local", "TXT", ['TXT "1.1.0"']),
        ("shop.svc.cluster.local", "A", []),
    ],
)
def test_a_name_has_the_records_of_the_specification(
    store: ServiceStore, name: str, kind: str, expected: list[str]
) -> None:
    assert data(lookup(store, name, kind)) == expected


@pytest.mark.parametrize(
    "name",
    [
        "db-1.db.shop.svc.cluster.local",
        "web-0.web.shop.svc.cluster.local",
        "nothing.shop.svc.cluster.local",
        "web.other.svc.cluster.local",
        "_http._udp.web.shop.svc.cluster.local",
        "a.b.c.d.web.shop.svc.cluster.local",
        "192-0-2-1.shop.pod.cluster.local",
        "9.0.0.10.in-addr.arpa",
        "999.0.0.10.in-addr.arpa",
        "x.in-addr.arpa",
        "example.org",
        "web.shop.svc.cluster.local.shop.svc.cluster.local",
    ],
)
def test_other_names_do_not_exist(store: ServiceStore, name: str) -> None:
    assert not lookup(store, name, "A").exists


def test_aliases_that_form_a_ring_end(store: ServiceStore) -> None:
    for here, there in (("a", "b"), ("b", "a")):
        store.put_service(service(here, type="ExternalName", externalName=f"{there}.shop.svc.cluster.local"))
    assert data(lookup(store, "a.shop.svc.cluster.local", "A")) == [
        "CNAME b.shop.svc.cluster.local.",
        "CNAME a.shop.svc.cluster.local.",
    ]


def test_a_service_that_is_gone_has_no_name(store: ServiceStore) -> None:
    store.drop_service(("shop", "web"))
    assert not lookup(store, "web.shop.svc.cluster.local", "A").exists


def ask(store: ServiceStore, name: str, kind: str = "A", **options: object) -> dns.message.Message:
    query = dns.message.make_query(name, kind, **options)  # pyright: ignore[reportArgumentType]
    response = answer(store, query.to_wire(), max_bytes=512)
    assert response is not None
    message = dns.message.from_wire(response)
    assert message.id == query.id
    return message


def test_the_server_answers_with_authority(store: ServiceStore) -> None:
    message = ask(store, "db-0.db.shop.svc.cluster.local")
    assert message.rcode() == dns.rcode.NOERROR
    assert message.flags & dns.flags.AA
    assert [item.to_text() for rrset in message.answer for item in rrset] == ["10.244.0.1"]


def test_the_server_tells_a_missing_name_from_a_missing_record(store: ServiceStore) -> None:
    assert ask(store, "nope.shop.svc.cluster.local").rcode() == dns.rcode.NXDOMAIN
    nothing = ask(store, "web.shop.svc.cluster.local", "AAAA")
    assert (nothing.rcode(), nothing.answer) == (dns.rcode.NOERROR, [])
    assert nothing.authority


def test_an_answer_that_is_too_long_for_a_datagram_is_truncated_unless_the_client_takes_more(
    store: ServiceStore,
) -> None:
    many = [{"addresses": [f"10.244.1.{number}"]} for number in range(1, 101)]
    store.put_slice(slice_of("db", *many, suffix="2"))
    assert ask(store, "db.shop.svc.cluster.local").flags & dns.flags.TC
    whole = ask(store, "db.shop.svc.cluster.local", use_edns=0, payload=4096)
    assert not whole.flags & dns.flags.TC
    assert len(whole.answer[0]) == 102


@pytest.mark.parametrize("query", [b"", b"x" * 11, b"\0" * 12 + b"\xc0\x0c" * 40])
def test_what_is_no_query_gets_no_answer_with_records(store: ServiceStore, query: bytes) -> None:
    response = answer(store, query)
    assert response is None or not dns.message.from_wire(response).answer


def test_the_router_gets_the_ready_endpoints_of_each_port(store: ServiceStore) -> None:
    stored = service("web", clusterIP="10.0.0.7", sessionAffinity="ClientIP", internalTrafficPolicy="Local")
    stored["spec"]["ports"][0]["nodePort"] = 30080
    store.put_service(stored)
    entries = entries_of(store, ("shop", "web"), ["10.245.0.1"])
    web = [("0af40009", 8080, "")]
    assert entries["060a0000070050"] == {"endpoints": web, "affinity_seconds": 10800.0, "local": True}
    assert entries["060af500017580"] == {"endpoints": web, "affinity_seconds": 10800.0, "local": False}
    assert entries["110a0000070035"]["endpoints"] == [("0af40009", 5353, "")]
    assert entries_of(store, ("shop", "db"), ["10.245.0.1"]) == {}
