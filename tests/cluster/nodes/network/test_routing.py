"""The router's decisions: delivery, Services, ICMP errors and faults, on packets and without devices."""

import random
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.nodes.network.router.faults import Rule
from steersman_cluster.nodes.network.router.flows import UDP_IDLE_SECONDS
from steersman_cluster.nodes.network.router.packets import flow_key, translate
from steersman_cluster.nodes.network.router.routing import Delivery, Router
from steersman_cluster.nodes.network.router.services import Endpoint, Service

from .packets import ends, is_sound, tcp, udp

CLIENT, SERVER, OTHER = "10.244.0.1", "10.244.0.2", "10.244.0.3"
SERVICE = "10.0.0.7"
SYN, ACK, FIN_ACK, RST = 2, 16, 17, 4


def packed(address: str) -> bytes:
    return socket.inet_aton(address)


def endpoint(address: str, port: int = 80, node: str = "node-1") -> Endpoint:
    return Endpoint(packed(address), port.to_bytes(2), node)


def entry(protocol: int = 6, address: str = SERVICE, port: int = 8080) -> bytes:
    return bytes([protocol]) + packed(address) + port.to_bytes(2)


@pytest.fixture
def router() -> Router:
    made = Router(packed("10.245.255.254"), random.Random(1))
    made.nodes.update({packed(CLIENT): "node-1", packed(SERVER): "node-1", packed(OTHER): "node-2"})
    return made


def send(router: Router, packet: bytes, now: float = 0.0) -> Delivery | None:
    return router.route(packet, frozenset([packet[12:16]]), now)


def delivered(router: Router, packet: bytes, now: float = 0.0) -> tuple[tuple[str, int], tuple[str, int]]:
    delivery = send(router, packet, now)
    assert delivery is not None
    assert is_sound(delivery.packet)
    source, destination = ends(delivery.packet)
    assert socket.inet_ntoa(delivery.address) == destination[0]
    return source, destination


def icmp(router: Router, packet: bytes) -> tuple[int, int]:
    """Type and code of the error that the sender receives."""
    delivery = send(router, packet)
    assert delivery is not None
    assert delivery.address == packet[12:16]
    assert delivery.packet[9] == 1
    assert is_sound(delivery.packet)
    assert delivery.packet[28:] == packet[:28]
    return delivery.packet[20], delivery.packet[21]


def test_a_packet_for_a_pod_arrives_unchanged(router: Router) -> None:
    packet = tcp((CLIENT, 40000), (SERVER, 80))
    assert send(router, packet) == Delivery(packed(SERVER), packet)


def test_a_packet_with_the_address_of_another_pod_is_dropped(router: Router) -> None:
    assert router.route(tcp((OTHER, 40000), (SERVER, 80)), frozenset([packed(CLIENT)]), 0.0) is None


@pytest.mark.parametrize("packet", [b"", b"\x45" + bytes(18), b"\x60" + bytes(60), bytes(20)])
def test_what_is_no_ipv4_packet_is_dropped(router: Router, packet: bytes) -> None:
    assert router.route(packet, frozenset([packet[12:16]]), 0.0) is None


def test_an_address_that_no_pod_has_is_an_unreachable_host(router: Router) -> None:
    assert icmp(router, tcp((CLIENT, 40000), ("10.244.9.9", 80))) == (3, 1)


def test_an_address_outside_of_the_cluster_is_an_unreachable_network(router: Router) -> None:
    assert icmp(router, udp((CLIENT, 40000), ("192.0.2.1", 53))) == (3, 0)


def test_a_service_without_endpoints_refuses(router: Router) -> None:
    router.services.set("web", {entry(): Service()})
    assert icmp(router, tcp((CLIENT, 40000), (SERVICE, 8080))) == (3, 3)


def test_a_port_that_a_service_does_not_have_is_refused(router: Router) -> None:
    router.services.set("web", {entry(): Service((endpoint(SERVER),))})
    assert icmp(router, tcp((CLIENT, 40000), (SERVICE, 81))) == (3, 3)


def test_a_connection_to_a_service_is_translated_both_ways(router: Router) -> None:
    router.services.set("web", {entry(): Service((endpoint(SERVER),))})
    there = delivered(router, tcp((CLIENT, 40000), (SERVICE, 8080)))
    assert there == ((CLIENT, 40000), (SERVER, 80))
    back = delivered(router, tcp((SERVER, 80), (CLIENT, 40000), SYN | ACK))
    assert back == ((SERVICE, 8080), (CLIENT, 40000))


def test_a_pod_reaches_itself_through_a_service(router: Router) -> None:
    router.services.set("web", {entry(): Service((endpoint(CLIENT),))})
    source, destination = delivered(router, tcp((CLIENT, 40000), (SERVICE, 8080)))
    assert destination == (CLIENT, 80)
    assert source[0] not in (CLIENT, SERVICE)
    assert delivered(router, tcp((CLIENT, 80), source, SYN | ACK)) == ((SERVICE, 8080), (CLIENT, 40000))


def test_an_open_connection_keeps_an_endpoint_that_is_no_longer_ready(router: Router) -> None:
    router.services.set("web", {entry(): Service((endpoint(SERVER),))})
    delivered(router, tcp((CLIENT, 40000), (SERVICE, 8080)))
    router.services.set("web", {entry(): Service((endpoint(OTHER),))})
    assert delivered(router, tcp((CLIENT, 40000), (SERVICE, 8080), ACK))[1] == (SERVER, 80)
    assert delivered(router, tcp((CLIENT, 40001), (SERVICE, 8080)))[1] == (OTHER, 80)


@pytest.mark.parametrize("ending", [FIN_ACK, RST])
def test_a_port_that_is_used_again_after_the_end_of_a_connection_gets_a_new_endpoint(
    router: Router, ending: int
) -> None:
    router.services.set("web", {entry(): Service((endpoint(SERVER),))})
    delivered(router, tcp((CLIENT, 40000), (SERVICE, 8080)))
    delivered(router, tcp((CLIENT, 40000), (SERVICE, 8080), ending))
    router.services.set("web", {entry(): Service((endpoint(OTHER),))})
    assert delivered(router, tcp((CLIENT, 40000), (SERVICE, 8080)))[1] == (OTHER, 80)


def test_datagrams_move_away_from_an_endpoint_that_is_gone(router: Router) -> None:
    key = entry(17)
    router.services.set("dns", {key: Service((endpoint(SERVER),))})
    assert delivered(router, udp((CLIENT, 40000), (SERVICE, 8080)))[1] == (SERVER, 80)
    router.services.set("dns", {key: Service((endpoint(OTHER),))})
    assert delivered(router, udp((CLIENT, 40000), (SERVICE, 8080)))[1] == (OTHER, 80)


def test_flows_are_forgotten_when_they_are_idle(router: Router) -> None:
    router.services.set("dns", {entry(17): Service((endpoint(SERVER),))})
    delivered(router, udp((CLIENT, 40000), (SERVICE, 8080)))
    router.flows.expire(UDP_IDLE_SECONDS)
    assert len(router.flows) == 1
    router.flows.expire(UDP_IDLE_SECONDS + 1)
    assert len(router.flows) == 0


def test_new_connections_reach_every_endpoint(router: Router) -> None:
    router.services.set("web", {entry(): Service((endpoint(SERVER), endpoint(OTHER)))})
    found = {delivered(router, tcp((CLIENT, port), (SERVICE, 8080)))[1][0] for port in range(40000, 40050)}
    assert found == {SERVER, OTHER}


def test_session_affinity_keeps_a_client_at_its_endpoint_until_its_time_is_over(router: Router) -> None:
    router.services.set("web", {entry(): Service((endpoint(SERVER), endpoint(OTHER)), affinity_seconds=10)})

    def reached(ports: range, now: float) -> set[str]:
        return {delivered(router, tcp((CLIENT, port), (SERVICE, 8080)), now)[1][0] for port in ports}

    assert len(reached(range(40000, 40050), 0.0)) == 1
    late = set[str]()
    for number in range(50):
        late |= reached(range(41000 + number, 41001 + number), 100.0 * (number + 1))
    assert late == {SERVER, OTHER}


def test_a_local_policy_uses_endpoints_of_the_clients_node_only(router: Router) -> None:
    service = Service((endpoint(SERVER, node="node-1"), endpoint(OTHER, node="node-2")), local=True)
    router.services.set("web", {entry(): service})
    assert {delivered(router, tcp((CLIENT, p), (SERVICE, 8080)))[1][0] for p in range(40000, 40030)} == {SERVER}
    router.services.set("web", {entry(): Service((endpoint(OTHER, node="node-2"),), local=True)})
    assert icmp(router, tcp((CLIENT, 50000), (SERVICE, 8080))) == (3, 3)


def test_a_node_port_does_not_hide_the_nodes_other_ports(router: Router) -> None:
    router.services.set("web", {entry(address=OTHER, port=30000): Service((endpoint(SERVER),))})
    assert delivered(router, tcp((CLIENT, 40000), (OTHER, 30000)))[1] == (SERVER, 80)
    assert delivered(router, tcp((CLIENT, 40000), (OTHER, 22)))[1] == (OTHER, 22)


def test_a_partition_in_one_direction_leaves_the_other_alone(router: Router) -> None:
    router.faults.rules = (Rule(frozenset([packed(CLIENT)]), frozenset([packed(SERVER)]), drop=1.0),)
    assert send(router, tcp((CLIENT, 40000), (SERVER, 80))) is None
    assert send(router, tcp((SERVER, 80), (CLIENT, 40000), ACK)) is not None
    assert send(router, tcp((CLIENT, 40000), (OTHER, 80))) is not None


def test_a_partition_holds_for_connections_through_a_service(router: Router) -> None:
    router.services.set("web", {entry(): Service((endpoint(SERVER),))})
    router.faults.rules = (Rule(frozenset([packed(CLIENT)]), frozenset([packed(SERVER)]), drop=1.0),)
    assert send(router, tcp((CLIENT, 40000), (SERVICE, 8080))) is None


def test_delays_add_up(router: Router) -> None:
    to_server = frozenset([packed(SERVER)])
    router.faults.rules = (Rule(frozenset(), to_server, delay_seconds=0.5), Rule(frozenset(), to_server, 0, 0.25))
    delivery = send(router, tcp((CLIENT, 40000), (SERVER, 80)))
    assert delivery is not None
    assert delivery.delay == 0.75


def test_a_share_of_the_packets_is_lost(router: Router) -> None:
    router.faults.rules = (Rule(frozenset(), frozenset(), drop=0.3),)
    lost = sum(send(router, tcp((CLIENT, 40000), (SERVER, 80))) is None for _ in range(1000))
    assert 200 < lost < 400


ports = st.integers(0, 65535)
addresses = st.ip_addresses(v=4).map(str)


@given(addresses, ports, addresses, ports, addresses, ports, st.binary(max_size=64), st.sampled_from([tcp, udp]))
def test_translated_packets_have_sound_checksums(
    source: str, sport: int, via: str, vport: int, target: str, tport: int, data: bytes, make: object
) -> None:
    packet = tcp((source, sport), (via, vport), 2, data) if make is tcp else udp((source, sport), (via, vport), data)
    key = flow_key(packet)
    assert key is not None
    wanted = key[0:1] + packed(source) + packed(target) + key[9:11] + tport.to_bytes(2)
    changed = translate(packet, wanted)
    assert is_sound(changed)
    assert ends(changed) == ((source, sport), (target, tport))
    assert changed[28 if make is udp else 40 :] == data
