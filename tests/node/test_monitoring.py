"""HelloApp's ServiceMonitor and alert rules with prometheus-operator, Prometheus and Alertmanager on a real node."""

import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.documents import load_all
from steersman.pki import Authority
from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.commands import REPOSITORY
from tests.node.installation import Installed, Package, package
from tests.node.monitoring import NAMESPACE, RULES, Monitoring, install_definitions
from tests.node.operator_images import operator_image

pytestmark = [pytest.mark.node, pytest.mark.slow]


def _certificate(shipped: Package) -> dict[str, Any]:
    """Return the Secret with the certificate of the metrics, which users without cert-manager create."""
    host = f"{shipped.name}-metrics.{shipped.namespace}.svc"
    authority = Authority.create("metrics")
    pair = authority.serving(host, [host])
    data = {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem, "ca.crt": authority.cert_pem}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{shipped.name}-metrics-cert", "namespace": shipped.namespace},
        "type": "kubernetes.io/tls",
        "data": {key: b64encode(value).decode() for key, value in data.items()},
    }


def _rules_of(path: Path) -> list[dict[str, Any]]:
    """Return the PrometheusRules in a file of manifests."""
    text = path.read_text()
    if "kind: PrometheusRule" not in text:
        return []
    return [one.value for one in load_all(text) if one.value["kind"] == "PrometheusRule"]


def _names(rules: dict[str, Any]) -> set[str]:
    return {rule["alert"] for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule}


@pytest.fixture(scope="module")
def shipped(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Package:
    image = operator_image("helloapp")
    node.import_images(image.archive)
    return package("helloapp", tmp_path_factory.mktemp("helloapp"), image, "--monitoring")


@pytest.fixture(scope="module")
def operator(node: RealNode, shipped: Package) -> Iterator[Installed]:
    """HelloApp with its ServiceMonitor, its rules and a certificate."""
    definitions = install_definitions(node)
    found = Installed(node, shipped.name, shipped.namespace, since=time.time())
    node.kubectl("apply", "--server-side", "-f", str(shipped.install))
    node.apply(_certificate(shipped))
    found.wait_available()
    yield found
    node.kubectl("delete", "--wait=true", "-f", str(shipped.install), timeout=120)
    node.kubectl("delete", "-f", str(definitions), timeout=120)


@pytest.fixture(scope="module")
def monitoring(node: RealNode, operator: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    found = Monitoring(node, tmp_path_factory.mktemp("monitoring"), [f"{operator.name}-metrics-reader"])
    found.wait_ready()
    yield found
    found.close()


def test_a_service_monitor_becomes_a_scrape_over_tls_with_a_token(operator: Installed, monitoring: Monitoring) -> None:
    job = f"serviceMonitor/{operator.namespace}/{operator.name}/0"

    def scrapes() -> list[dict[str, Any]]:
        return [one for one in monitoring.configuration()["scrape_configs"] if one["job_name"] == job]

    (scrape,) = eventually(scrapes, within=60, what="the configuration of the scrape")
    assert scrape["scheme"] == "https"
    assert scrape["tls_config"]["server_name"] == f"{operator.name}-metrics.{operator.namespace}.svc"
    assert scrape["tls_config"].get("insecure_skip_verify") is not True
    assert scrape["tls_config"]["ca_file"]
    credentials = scrape.get("authorization", {}).get("credentials_file") or scrape.get("bearer_token_file")
    assert credentials == "/var/run/secrets/kubernetes.io/serviceaccount/token"


def test_prometheus_scrapes_the_operator_over_tls_with_a_token(operator: Installed, monitoring: Monitoring) -> None:
    job = f"{operator.name}-metrics"
    eventually(
        lambda: [one["health"] for one in monitoring.targets(job)] == ["up"],
        within=90,
        what="a healthy target",
        shown=lambda: monitoring.targets(job),
    )
    (target,) = monitoring.targets(job)
    assert target["scrapeUrl"].startswith("https://")
    eventually(
        lambda: [one["value"][1] for one in monitoring.query(f'leader_election_master_status{{job="{job}"}}')] == ["1"],
        within=30,
        what="the metric of the leader",
    )
    reviews = operator.node.audit_events(user=operator.user, resource="tokenreviews")
    assert any(one.code == 201 for one in reviews)


def test_all_alert_rules_of_the_operator_are_evaluated_and_none_fires(
    operator: Installed, monitoring: Monitoring
) -> None:
    found = operator.node.get(RULES, operator.name, namespace=operator.namespace)
    assert found is not None
    (generated,) = _rules_of(REPOSITORY / "operators/helloapp/config/prometheus/monitoring.yaml")
    assert _names(found) == _names(generated)
    eventually(lambda: _names(found) <= monitoring.rules().keys(), within=60, what="the rules")
    eventually(
        lambda: (
            {(rule["health"], rule["state"]) for name, rule in monitoring.rules().items() if name in _names(found)}
            == {("ok", "inactive")}
        ),
        within=60,
        what="rules without an alert",
        shown=monitoring.rules,
    )


def test_prometheus_loads_and_evaluates_the_rules_of_all_operators(node: RealNode, monitoring: Monitoring) -> None:
    paths = sorted(REPOSITORY.glob("operators/*/config/*/*.yaml"))
    shipped = [rules for path in paths for rules in _rules_of(path)]
    assert len({rules["metadata"]["name"] for rules in shipped}) >= 5
    wanted = set[str]()
    for number, rules in enumerate(shipped):
        node.apply({**rules, "metadata": {"name": f"shipped-{number}", "namespace": NAMESPACE}})
        wanted |= _names(rules)
    eventually(
        lambda: {monitoring.rules()[name]["health"] for name in wanted} == {"ok"},
        within=120,
        what="the rules of all operators, evaluated",
        shown=lambda: {name: rule.get("lastError") for name, rule in monitoring.rules().items()},
    )
    for number in range(len(shipped)):
        node.delete(RULES, f"shipped-{number}", namespace=NAMESPACE)
    eventually(lambda: not wanted <= monitoring.rules().keys(), within=120, what="only the rules of HelloApp")


def test_an_alert_reaches_alertmanager_while_no_replica_runs(
    node: RealNode, operator: Installed, monitoring: Monitoring
) -> None:
    """The alert waits five minutes before it fires, which are two seconds here."""
    rules = node.get(RULES, operator.name, namespace=operator.namespace)
    assert rules is not None
    (absent,) = (rule for rule in rules["spec"]["groups"][0]["rules"] if rule["alert"].endswith("Absent"))
    absent["for"] = "2s"
    node.patch(RULES, operator.name, {"spec": rules["spec"]}, namespace=operator.namespace)
    name = absent["alert"]
    eventually(lambda: monitoring.rules()[name]["duration"] == 2, within=120, what="the changed rule")
    assert name not in monitoring.alerts()
    node.scale("deployment", operator.name, 0, namespace=operator.namespace)
    eventually(lambda: name in monitoring.alerts(), within=120, what="the alert in Alertmanager")
    labels = monitoring.alerts()[name]
    assert (labels["namespace"], labels["severity"]) == (operator.namespace, "critical")
    node.scale("deployment", operator.name, 1, namespace=operator.namespace)
    operator.wait_available()
    eventually(lambda: name not in monitoring.alerts(), within=120, what="the end of the alert")
    operator.check_log()
    assert operator.refusals() == []
