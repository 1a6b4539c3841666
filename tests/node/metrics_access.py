"""Access to the metrics of an operator: a Pod sends requests to its Service over TLS with tokens of ServiceAccounts."""

from __future__ import annotations

from typing import Any

from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.installation import Installed
from tests.node.operator_images import OperatorImage

_SCRAPE = """
import ssl, sys, urllib.error, urllib.request
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
request = urllib.request.Request(sys.argv[1], headers={"Authorization": f"Bearer {sys.argv[2]}"} if sys.argv[2] else {})
try:
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        print(answer.status, answer.read().decode()[:100000])
except urllib.error.HTTPError as error:
    print(error.code)
"""


def check_metrics_access(node: RealNode, operator: Installed, image: OperatorImage, namespace: str) -> None:
    """Check that only accounts with the role read the metrics; the operator asks the API server (TokenReview)."""
    wait = ["python", "-c", "import signal; signal.pause()"]
    container = {"name": "client", "image": image.name, "imagePullPolicy": "Never", "command": wait}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "client"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    # An operator with webhooks for Pods needs a moment until the API server trusts its new authority.
    eventually(lambda: node.apply(pod, namespace=namespace), within=60, what="a Pod that is admitted")
    accounts: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}} for name in ("reader", "other")
    ]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{namespace}-reader"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": f"{operator.name}-metrics-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    }
    node.apply(*accounts, binding, namespace=namespace)
    node.wait("pod", "client", "Ready", namespace=namespace, within=60)
    address = f"https://{operator.name}-metrics.{operator.namespace}.svc:8443/metrics"

    def scrape(account: str) -> str:
        token = node.kubectl("create", "token", account, f"--namespace={namespace}").strip() if account else ""
        words = ["python", "-c", _SCRAPE, address, token]
        return node.kubectl("exec", f"--namespace={namespace}", "client", "--", *words)

    try:
        eventually(lambda: scrape("reader").startswith("200"), within=30, what="the metrics")
        assert "# TYPE" in scrape("reader")
        assert scrape("other").strip() == "403"
        assert scrape("").strip() == "401"
    finally:
        node.delete("clusterrolebinding", f"{namespace}-reader")
    reviews = node.audit_events(user=operator.user, resource="tokenreviews")
    assert any(one.code == 201 for one in reviews)
