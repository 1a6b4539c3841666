"""client-go and controller-runtime, as JSON and as protobuf; see go/main.go."""

from .conftest import run

STEPS = ("objects", "informer", "election", "manager")
WIRES = ("application/json", "application/vnd.kubernetes.protobuf")


def test_go_programs_find_what_they_expect(cluster, go_client):
    said = run(cluster, go_client).splitlines()
    assert said == [f"{step} {wire}: ok" for step in STEPS for wire in WIRES]
