"""The kustomize tree, install.yaml and the Helm chart: one model, validated by the field's own tools."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from steersman import Operator
from steersman.manifests import ManifestError, Package, everything, package_files, write
from steersman.manifests.helm import CHART_FOLDERS, chart_files
from steersman.manifests.install import install_file
from steersman.manifests.monitoring import dashboard
from steersman.manifests.template_values import Block, Each, Text, When, resolved, templated
from steersman.testing import ControlPlane
from tests.manifests import shipped_app
from tests.manifests.server import Strict

TOOLS = Path(os.environ.get("STEERSMAN_TOOLS") or Path.home() / ".cache/steersman/tools")
PACKAGE = Package(shipped_app.operator, "shipped_app:operator")
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "the defaults": ({}, []),
    "cert-manager": ({"certificates": "cert-manager"}, ["certManager.enabled=true", "crds.keep=false"]),
    "monitoring": (
        {"monitoring": True, "certificates": "cert-manager"},
        ["monitoring.enabled=true", "certManager.enabled=true"],
    ),
    "monitoring with a certificate of one's own": ({"monitoring": True}, ["monitoring.enabled=true"]),
    "no metrics": (
        {"metrics": False, "network_policies": True},
        ["metrics.enabled=false", "networkPolicies.enabled=true"],
    ),
    "CRDs that the operator installs": ({"install_crds": True}, ["crds.installedByOperator=true"]),
    "some namespaces": ({"namespaces": ("a", "b")}, ["watchNamespaces[0]=a", "watchNamespaces[1]=b"]),
    "image and replicas": (
        {"image": "r.example.com:5000/x/y:2", "replicas": 3},
        ["image.repository=r.example.com:5000/x/y", "image.tag=2", "replicas=3"],
    ),
}


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"{name} is not installed: hack/tools.sh {name}")
    return found


def ran(*words: str | Path) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def by_name(text: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = [one for one in yaml.safe_load_all(text) if one]
    for one in found:
        annotations = one["metadata"].get("annotations") or {}
        if annotations.pop("helm.sh/resource-policy", None) and not annotations:
            del one["metadata"]["annotations"]
    keyed = {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in found}
    assert len(keyed) == len(found)
    return keyed


def test_shapes_are_their_defaults_or_templates_of_the_same() -> None:
    tree = {
        "size": Text(".Values.size", 2),
        "more": Block(".Values.more", {}),
        "on": When(".Values.on", False, {"x": 1}),
        "args": ["a", Each(".Values.all", "--n={}", ["p", "q"]), When(".Values.on", True, ["b"])],
    }
    assert resolved(tree) == {"size": 2, "args": ["a", "--n=p", "--n=q", "b"]}
    assert templated(tree) == (
        "args:\n- a\n{{- range .Values.all }}\n- --n={{ . }}\n{{- end }}\n{{- if .Values.on }}\n- b\n{{- end }}\n"
        "{{- with .Values.more }}\nmore:\n{{- toYaml . | nindent 2 }}\n{{- end }}\n"
        "{{- if .Values.on }}\non:\n  x: 1\n{{- end }}\nsize: {{ .Values.size }}\n"
    )


def test_braces_of_a_description_are_text_in_a_chart() -> None:
    assert templated({"a": "{{ .Values.x }}"}) == "a: '{{ \"{{ .Values.x }}\" }}'\n"


@pytest.mark.parametrize("case", CASES)
def test_kustomize_builds_what_install_yaml_holds(case: str, tmp_path: Path) -> None:
    package = replace(PACKAGE, **CASES[case][0])
    write(package_files(package), tmp_path)
    assert by_name(ran(tool("kustomize"), "build", tmp_path / "default")) == by_name(install_file(package))


@pytest.mark.parametrize("certificates", ["self-managed", "cert-manager"])
def test_definitions_alone_name_no_conversion_service(certificates: Any) -> None:
    """`kubectl apply -k config/crd` serves a local run, which converts under its own URL."""
    files = package_files(replace(PACKAGE, certificates=certificates))
    bases = [yaml.safe_load(text) for path, text in files.items() if path.startswith("crd/bases/")]
    assert bases
    assert all("conversion" not in crd["spec"] for crd in bases)
    assert "inject-ca-from" not in str(bases)
    whole = yaml.safe_load(files["default/kustomization.yaml"])
    assert "widgets-webhook" in str(whole["patches"])


@pytest.mark.parametrize("case", CASES)
def test_the_chart_yields_the_same_for_the_same_values(case: str, tmp_path: Path) -> None:
    helm = tool("helm")
    write(chart_files(PACKAGE), tmp_path, CHART_FOLDERS)
    changes, values = CASES[case]
    words = [word for value in values for word in ("--set-string" if "image" in value else "--set", value)]
    release = ("widgets", tmp_path, "--namespace", "widgets-system", "--kube-version", "1.36.0")
    made = by_name(ran(helm, "template", *release, *words))
    wanted = by_name(install_file(replace(PACKAGE, **changes)))
    assert made == {key: value for key, value in wanted.items() if key[0] != "Namespace"}


def test_helm_finds_nothing_to_complain_of_and_refuses_values_that_are_none(tmp_path: Path) -> None:
    helm = tool("helm")
    write(chart_files(PACKAGE), tmp_path, CHART_FOLDERS)
    assert "0 chart(s) failed" in ran(helm, "lint", "--strict", tmp_path)
    words = [helm, "template", "x", str(tmp_path), "--kube-version", "1.36.0", "--set", "replica=2"]
    refused = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode
    assert "replica" in refused.stderr


def test_promtool_accepts_the_alerts(tmp_path: Path) -> None:
    promtool = tool("promtool")
    documents = everything(replace(PACKAGE, monitoring=True))
    rules = next(one["spec"] for one in documents if one["kind"] == "PrometheusRule")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    assert "SUCCESS: 8 rules found" in ran(promtool, "check", "rules", tmp_path / "rules.yaml")


def test_alerts_and_dashboard_name_metrics_that_exist() -> None:
    texts = [rule["expr"] for rule in _rules()] + [
        target["expr"] for panel in json.loads(dashboard(PACKAGE))["panels"] for target in panel["targets"]
    ]
    used = {word for text in texts for word in re.findall(r"[a-z_]+(?=\{)", text)}
    source = "\n".join(p.read_text() for p in (Path(__file__).parents[2] / "src/steersman").rglob("*metrics.py"))
    source += (Path(__file__).parents[2] / "src/steersman/controller/watchdog.py").read_text()
    missing = {name for name in used - {"up"} if re.sub(r"_(total|bucket)$", "", name) not in source}
    assert not missing


def _rules() -> list[dict[str, Any]]:
    documents = everything(replace(PACKAGE, monitoring=True))
    return next(one["spec"]["groups"][0]["rules"] for one in documents if one["kind"] == "PrometheusRule")


def test_what_is_made_is_the_same_byte_for_byte() -> None:
    for make in (package_files, chart_files, install_file, dashboard):
        maker: Callable[[Package], Any] = make
        assert maker(PACKAGE) == maker(Package(shipped_app.operator, "shipped_app:operator"))


def test_network_policies_open_the_ports_that_the_container_listens_on() -> None:
    documents = everything(replace(PACKAGE, network_policies=True))
    pod = next(one["spec"]["template"] for one in documents if one["kind"] == "Deployment")
    listening = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    policies = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "NetworkPolicy"}
    for name, spec in policies.items():
        assert spec["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert [port["port"] for rule in spec["ingress"] for port in rule["ports"]] == [
            listening[name.removeprefix("widgets-")]
        ]


def test_scrapes_verify_the_certificate_by_the_name_that_it_has() -> None:
    documents = everything(replace(PACKAGE, monitoring=True, certificates="cert-manager"))
    endpoint = next(one["spec"]["endpoints"][0] for one in documents if one["kind"] == "ServiceMonitor")
    certificate = next(
        one["spec"]
        for one in documents
        if one["kind"] == "Certificate" and one["metadata"]["name"] == "widgets-metrics"
    )
    assert endpoint["tlsConfig"]["serverName"] in certificate["dnsNames"]
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == certificate["secretName"]
    assert "insecureSkipVerify" not in endpoint["tlsConfig"]


def test_each_alert_has_the_namespace_that_its_expression_drops() -> None:
    (found,) = (one for one in everything(replace(PACKAGE, monitoring=True)) if one["kind"] == "PrometheusRule")
    labels = [rule["labels"] for group in found["spec"]["groups"] for rule in group["rules"]]
    assert {one["namespace"] for one in labels} == {PACKAGE.home}


def test_the_authority_of_cert_manager_outlives_the_certificates_that_it_signs() -> None:
    """A renewal changes neither the bundle nor the key of the authority, so old and new certificates match it."""
    documents = everything(replace(PACKAGE, certificates="cert-manager"))
    issuers = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "Issuer"}
    certificates = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "Certificate"}
    authority, webhook = certificates["widgets-ca"], certificates["widgets-webhook"]
    assert issuers[authority["issuerRef"]["name"]] == {"selfSigned": {}}
    assert issuers[webhook["issuerRef"]["name"]] == {"ca": {"secretName": authority["secretName"]}}
    assert authority["isCA"] is True
    assert authority["privateKey"]["rotationPolicy"] == "Never"
    assert "duration" not in webhook


def manager(package: Package) -> dict[str, Any]:
    deployment = by_name(install_file(package))["Deployment", package.home, package.name]
    return deployment["spec"]["template"]["spec"]["containers"][0]


def test_a_container_knows_the_uid_of_its_pod() -> None:
    """L1: the setting that lets a restarted container take its own lease; it comes from the downward API alone."""
    uid = [env for env in manager(PACKAGE)["env"] if env["name"] == "STEERSMAN_POD_UID"]
    assert uid == [{"name": "STEERSMAN_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]


def test_no_probe_waits_for_a_fixed_delay() -> None:
    """A roll-out takes as long as its Pods need: a startup probe runs each second, and readiness follows it."""
    container = manager(PACKAGE)
    startup, readiness, liveness = (container[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness"))
    assert not [probe for probe in (startup, readiness, liveness) if "initialDelaySeconds" in probe]
    assert (startup["periodSeconds"], startup["httpGet"]["path"]) == (1, "/healthz")
    assert startup["failureThreshold"] >= 60, "a slow machine has a minute"
    assert readiness["periodSeconds"] <= 2


def test_addresses_that_are_not_ready_are_published_for_conversion_alone() -> None:
    """Reviews go to replicas that are ready; a replica that fills its caches may need its own conversions for that."""
    alone = Operator("reviews")
    alone.validator(shipped_app.judge_fleet)
    for source, published in ((shipped_app.operator, True), (alone, None)):
        package = replace(PACKAGE, operator=source)
        service = by_name(install_file(package))["Service", package.home, package.webhook_service]
        assert service["spec"].get("publishNotReadyAddresses") is published


def test_an_operator_of_some_namespaces_is_asked_about_those_alone() -> None:
    documents = everything(replace(PACKAGE, namespaces=("b", "a")))
    webhooks = [w for one in documents if one["kind"].endswith("WebhookConfiguration") for w in one["webhooks"]]
    assert len(webhooks) == 3
    for webhook in webhooks:
        assert webhook["namespaceSelector"]["matchExpressions"][-1] == (
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
        )


def test_an_operator_is_not_asked_about_pods_of_its_own_namespace() -> None:
    webhooks = {
        webhook["clientConfig"]["service"]["path"]: webhook
        for one in everything(PACKAGE)
        if one["kind"].endswith("WebhookConfiguration")
        for webhook in one["webhooks"]
    }
    assert webhooks["/mutate--v1-pod"]["namespaceSelector"] == {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["widgets-system"]}]
    }
    assert "namespaceSelector" not in webhooks["/mutate-pkg-example-com-v2-widget"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"version": "1"}, "version '1': write three numbers"),
        ({"image": "-x"}, "image '-x' is not the name of an image"),
        ({"namespace": "A"}, "namespace 'A'"),
        ({"namespaces": ("ok", "no_t")}, "namespace 'no_t'"),
        ({"replicas": -1}, "replicas=-1"),
        ({"target": ""}, "pass it as MODULE:OPERATOR"),
    ],
)
def test_values_that_no_cluster_takes_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        replace(PACKAGE, **wrong)


@pytest.mark.parametrize(
    ("image", "repository", "reference"),
    [
        ("", "widgets", "widgets:0.1.0"),
        ("r:5000/x", "r:5000/x", "r:5000/x:latest"),
        ("r:5000/x:1", "r:5000/x", "r:5000/x:1"),
        ("x@sha256:" + "a" * 64, "x", "x@sha256:" + "a" * 64),
    ],
)
def test_images_are_taken_apart_at_the_right_colon(image: str, repository: str, reference: str) -> None:
    package = replace(PACKAGE, image=image)
    assert (package.repository, package.reference) == (repository, reference)


def test_a_file_whose_first_line_was_taken_away_is_kept(tmp_path: Path) -> None:
    files = package_files(PACKAGE)
    write(files, tmp_path)
    manager = tmp_path / "manager/manager.yaml"
    manager.write_text("replicas: mine\n")
    assert write(files, tmp_path).kept == ("manager/manager.yaml",)
    assert manager.read_text() == "replicas: mine\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Strict]:
    with ControlPlane.start() as plane:
        strict = Strict(plane)
        strict.kubeconfig = str(plane.kubeconfig)  # type: ignore[attr-defined]
        yield strict
        strict.session.close()


PATHS = {
    "Namespace": "/api/v1/namespaces",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Service": "/api/v1/namespaces/{}/services",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


@pytest.mark.realcluster
def test_the_real_server_takes_everything_strictly_and_without_a_warning(server: Strict) -> None:
    restricted = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    for document in everything(replace(PACKAGE, network_policies=True)):
        if document["kind"] == "Namespace":
            document["metadata"]["labels"] |= restricted  # a Pod that falls short would be warned of
        path = PATHS[document["kind"]].format(document["metadata"].get("namespace", ""))
        assert server.send("POST", path, document, dry=document["kind"] != "Namespace") == (201, "", []), document


@pytest.mark.realcluster
def test_helm_installs_and_uninstalls_on_the_real_server_and_definitions_stay(server: Strict, tmp_path: Path) -> None:
    helm = tool("helm")
    write(chart_files(PACKAGE), tmp_path, CHART_FOLDERS)
    where = ("--namespace", "by-helm", "--kubeconfig", server.kubeconfig)  # type: ignore[attr-defined]
    ran(helm, "install", "widgets", tmp_path, "--create-namespace", *where)
    assert server.session.ready("/apis/apps/v1/namespaces/by-helm/deployments/widgets")
    ran(helm, "upgrade", "widgets", tmp_path, "--set", "metrics.enabled=false", "--set", "replicas=2", *where)
    live = server.session.call("GET", "/apis/apps/v1/namespaces/by-helm/deployments/widgets")
    assert live["spec"]["replicas"] == 2
    assert not server.session.ready("/api/v1/namespaces/by-helm/services/widgets-metrics")
    ran(helm, "uninstall", "widgets", *where)
    assert not server.session.ready("/apis/apps/v1/namespaces/by-helm/deployments/widgets")
    assert server.session.ready(f"{PATHS['CustomResourceDefinition']}/widgets.pkg.example.com")
