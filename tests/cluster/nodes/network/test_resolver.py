"""The files that tell a container's resolver where to ask."""

import pytest

from steersman_cluster.nodes.network.resolver import full_name, hosts_file, resolv_conf
from steersman_cluster.objects import Object

HOST = "nameserver 192.0.2.53\nsearch example.org\noptions timeout:1 rotate\n# a comment\n"
CLUSTER = "nameserver 10.0.0.10\nsearch shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
FROM_HOST = "nameserver 192.0.2.53\nsearch example.org\noptions timeout:1 rotate\n"


def pod(**spec: object) -> Object:
    return {"metadata": {"name": "web-0", "namespace": "shop"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, CLUSTER),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, FROM_HOST),
        ({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}, CLUSTER),
        ({"dnsPolicy": "Default"}, FROM_HOST),
        (
            {
                "dnsPolicy": "None",
                "dnsConfig": {"nameservers": ["1.2.3.4"], "searches": ["a.b"], "options": [{"name": "rotate"}]},
            },
            "nameserver 1.2.3.4\nsearch a.b\noptions rotate\n",
        ),
        (
            {"dnsConfig": {"searches": ["cluster.local", "more"], "options": [{"name": "ndots", "value": "2"}]}},
            CLUSTER.replace("cluster.local\noptions", "cluster.local more\noptions").replace("ndots:5", "ndots:2"),
        ),
    ],
)
def test_the_policy_and_the_configuration_make_the_file(spec: dict[str, object], expected: str) -> None:
    assert resolv_conf(pod(**spec), HOST) == expected


def test_a_pod_with_a_subdomain_knows_its_full_name() -> None:
    member = pod(hostname="web-0", subdomain="web")
    assert full_name(member) == "web-0.web.shop.svc.cluster.local"
    assert "10.244.0.1\tweb-0.web.shop.svc.cluster.local\tweb-0\n" in hosts_file(member, "10.244.0.1", "web-0", "")


def test_host_aliases_are_in_the_hosts_file() -> None:
    text = hosts_file(pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a", "b"]}]), "10.244.0.1", "web-0", "")
    assert text.endswith("10.244.0.1\tweb-0\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n")


def test_a_pod_on_the_host_network_has_the_hosts_file_of_its_node():
    text = hosts_file(pod(hostNetwork=True), "10.245.0.1", "web-0", "127.0.0.1 localhost\n10.9.9.9 other\n")
    assert text == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n10.9.9.9 other\n"
