"""The NetworkPolicies of an operator against its Pods. The node's network plugin does not enforce policies."""

from __future__ import annotations

from steersman.documents import load_all
from tests.node.commands import REPOSITORY
from tests.node.installation import Installed

_LISTENS = "0A"
"""The state of a listening socket in `/proc/PID/net/tcp`."""


def check_network_policies(operator: Installed, project: str) -> None:
    """Check that the policies of `operators/PROJECT` select its Pods and allow only ports on which these listen."""
    file = REPOSITORY / "operators" / project / "config/network-policy/policies.yaml"
    operator.node.kubectl("apply", "--dry-run=server", "-f", str(file))
    policies = [document.value for document in load_all(file.read_text())]
    assert policies
    leader = operator.leader()
    listening = _listening_ports(operator, operator.process(leader).pid)
    for policy in policies:
        labels = ",".join(f"{key}={value}" for key, value in policy["spec"]["podSelector"]["matchLabels"].items())
        selected = operator.node.list("pods", namespace=policy["metadata"]["namespace"], labels=labels)
        assert leader["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in selected}
        allowed = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert allowed <= listening, f"{policy['metadata']['name']}: {allowed - listening} are not open"


def _listening_ports(operator: Installed, pid: int) -> set[int]:
    """Return the TCP ports on which processes in the network namespace of a process listen."""
    lines = operator.node.inside("cat", f"/proc/{pid}/net/tcp", f"/proc/{pid}/net/tcp6").splitlines()
    sockets = [line.split() for line in lines if ":" in line]
    return {int(words[1].rpartition(":")[2], 16) for words in sockets if words[3] == _LISTENS}
