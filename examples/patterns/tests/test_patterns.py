"""Each pattern works on the embedded cluster, with just the permissions that it declares."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import any_kind
import bucket
import copied_secret
import debounced_report
import expiring
import http_routes
import leader_record
import migrated_app
import pytest
import remove_finished_pods
import required_labels
import restart_counts
import secret_users
import team_labels
import tenants
import untagged_images
import worker_pool

from steersman.k8s import Pod
from steersman.metrics import REGISTRY
from steersman.testing import CallError, Operators, RunningOperator, eventually, simulated

GROUP = "patterns.example.com/v1"


@pytest.fixture
def operator(operator: Operators) -> Iterator[Callable[..., RunningOperator]]:
    """As the fixture of Steersman; the test fails if a reconcile failed."""
    started: list[RunningOperator] = []

    def start(what: object, **options: Any) -> RunningOperator:
        started.append(operator(what, **options))
        return started[-1]

    yield start
    assert [str(run) for one in started for run in one.reconciles if run.error] == []


def config_map(name: str, **more: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}, "data": {}}


def pod(name: str, **spec: object) -> dict[str, object]:
    containers = [{"name": "main", "image": "main"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def custom(kind: str, name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}


@simulated(seed=1)
async def test_pods_that_finished_some_time_ago_are_removed(simulation) -> None:
    await simulation.operator(remove_finished_pods)
    ends = {"simulate.steersman.dev/exit-after": "1s"}
    await simulation.apply({**pod("done", restartPolicy="Never"), "metadata": {"name": "done", "annotations": ends}})
    await simulation.apply(pod("stays"))
    await simulation.passes(minutes=10)
    assert len([one async for one in simulation.client.iterate(Pod, namespace="default")]) == 2
    await simulation.passes(minutes=10)
    assert [one.metadata.name async for one in simulation.client.iterate(Pod, namespace="default")] == ["stays"]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The paths in an object store that is served over HTTP."""
    found: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            found.add(self.path)
            self.send_response(204)
            self.end_headers()

        def do_DELETE(self) -> None:
            found.discard(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(bucket, "STORE", f"http://127.0.0.1:{server.server_port}")
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_bucket_is_removed_from_the_store_before_its_object(cluster, operator, store: set[str]) -> None:
    operator(bucket)
    cluster.apply(custom("Bucket", "photos", region="south"))
    found = cluster.wait("bucket", "photos", lambda found: found.get("status", {}).get("url"))
    assert store == {f"/south/{found['metadata']['uid']}"}
    cluster.delete("bucket", "photos", wait=True)
    assert store == set()


def test_a_secret_names_its_users(cluster, operator) -> None:
    operator(secret_users)
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}})
    volumes = [{"name": "key", "secret": {"secretName": "key"}}]
    cluster.apply(pod("b", volumes=volumes), pod("a", volumes=volumes), pod("c"))

    def used_by(names: str | None):
        return lambda found: found["metadata"].get("annotations", {}).get(secret_users.USED_BY) == names

    cluster.wait("secret", "key", used_by("a,b"))
    cluster.delete("pod", "a", wait=True)
    cluster.wait("secret", "key", used_by("b"))


def test_an_image_without_a_version_is_reported(cluster, operator) -> None:
    running = operator(untagged_images)
    cluster.apply(deployment("fixed", "registry.example:5000/web:1"), deployment("moving", "web"))

    def events():
        return [e for e in cluster.list("events.events.k8s.io") if e["reason"] == "UntaggedImage"]

    found = eventually(events, what="the Event")
    running.wait_idle()
    assert [e["regarding"]["name"] for e in found] == ["moving"]


def deployment(name: str, image: str) -> dict[str, object]:
    labels = {"app": name}
    containers = [{"name": "main", "image": image}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_a_worker_pool_can_be_scaled(cluster, operator) -> None:
    operator(worker_pool)
    cluster.apply(custom("WorkerPool", "crunch", image="crunch:1"))
    cluster.wait("workerpool", "crunch", lambda found: found.get("status", {}).get("replicas") == 1)
    cluster.scale("workerpool", "crunch", 3)
    cluster.wait("workerpool", "crunch", lambda found: found["status"]["replicas"] == 3)
    cluster.scale("workerpool", "crunch", 0)
    cluster.wait("workerpool", "crunch", lambda found: found["status"].get("replicas", 0) == 0)
    assert cluster.list("pods") == []


def test_a_secret_is_copied_and_its_copies_are_deleted_with_it(cluster, operator) -> None:
    other = f"{cluster.namespace}-copy"
    cluster.create_namespace(other)
    operator(copied_secret, namespaces=[])
    source = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull", "annotations": {copied_secret.COPY_TO: other}},
        "stringData": {"key": "value"},
    }
    cluster.apply(source)
    cluster.wait("secret", "pull", "created", namespace=other)
    cluster.delete("secret", "pull", namespace=other)  # a deleted copy comes back
    cluster.wait("secret", "pull", "created", namespace=other)
    cluster.delete("secret", "pull", wait=True)
    assert cluster.get("secret", "pull", namespace=other) is None
    cluster.delete_namespace(other)


def test_the_leader_records_itself(cluster, operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADER_NAMESPACE", cluster.namespace)
    running = operator(leader_record)
    cluster.wait("configmap", "leader-record", lambda found: found["data"]["state"] == "leads")
    running.stop()
    assert cluster.get("configmap", "leader-record")["data"]["state"] == "ended"


def test_restarts_are_counted_by_namespace(cluster, operator) -> None:
    running = operator(restart_counts)
    cluster.apply(pod("main"))
    cluster.wait("pod", "main", "Ready")
    running.wait_idle()
    status = cluster.get("pod", "main")["status"]
    status["containerStatuses"][0]["restartCount"] = 2
    cluster.patch("pod", "main", {"status": status}, subresource="status")
    labels = {"namespace": cluster.namespace}
    eventually(
        lambda: (REGISTRY.get_sample_value("patterns_container_restarts_total", labels) or 0) >= 2, what="the count"
    )


def test_a_reconcile_is_traced(cluster, operator) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="needs OpenTelemetry: pip install 'steersman[otel]'")
    import traced_export
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    operator(traced_export)
    cluster.apply({**config_map("prices", labels={traced_export.EXPORT: "yes"}), "data": {"apples": "3"}})
    found = eventually(spans.get_finished_spans, what="the span")
    assert [(span.name, dict(span.attributes or {})) for span in found] == [("export", {"export.keys": 1})]


CERTIFICATES = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.certs.example.com}
spec:
  group: certs.example.com
  names: {kind: Certificate, listKind: CertificateList, plural: certificates, singular: certificate}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def test_a_kind_without_a_class_is_reconciled(cluster, operator) -> None:
    cluster.apply(CERTIFICATES)
    operator(any_kind)
    certificate = "{apiVersion: certs.example.com/v1, kind: Certificate, metadata: {name: web}, spec: SPEC}"
    cluster.apply(certificate.replace("SPEC", "{issuerRef: {name: internal}}"))
    cluster.wait("certificates.certs.example.com", "web", lambda found: found["metadata"].get("labels"))
    found = cluster.get("certificates.certs.example.com", "web")
    assert found["metadata"]["labels"] == {"issuer": "internal"}


def test_workloads_have_the_label_of_their_namespace(cluster, operator) -> None:
    operator(team_labels, namespaces=[])
    cluster.apply(deployment("web", "web:1"))
    cluster.patch("namespace", cluster.namespace, {"metadata": {"labels": {"team": "blue"}}})
    cluster.wait("deployment", "web", lambda found: found["metadata"].get("labels", {}).get("team") == "blue")
    cluster.patch("namespace", cluster.namespace, {"metadata": {"labels": {"team": None}}})
    cluster.wait("deployment", "web", lambda found: "team" not in found["metadata"].get("labels", {}))


def test_routes_become_one_configuration(cluster, operator) -> None:
    operator(http_routes)
    cluster.apply(config_map(http_routes.PROXY), custom("Route", "a", host="shop.example", service="shop"))
    cluster.wait("route", "a", "Ready")
    cluster.apply(custom("Route", "b", host="shop.example", service="other"))
    cluster.wait("route", "b", "Ready=False")
    proxy = cluster.wait("configmap", http_routes.PROXY, lambda found: found.get("data", {}).get("routes"))
    assert proxy["data"]["routes"] == "shop.example http://shop:80"
    cluster.delete("route", "a", wait=True)
    cluster.wait("route", "b", "Ready")
    cluster.wait("configmap", http_routes.PROXY, lambda found: "other" in found["data"]["routes"])


def test_a_tenant_has_a_namespace_a_quota_and_a_role(cluster, operator) -> None:
    name = cluster.namespace
    operator(tenants, namespaces=[])
    cluster.apply(custom("Tenant", name, group="blue", pods=2))
    cluster.wait("rolebinding", "edit", "created", namespace=f"tenant-{name}")
    assert cluster.get("resourcequota", "pods", namespace=f"tenant-{name}")["spec"]["hard"] == {"pods": "2"}
    cluster.delete("tenant", name, wait=True)
    cluster.wait("namespace", f"tenant-{name}", "deleted")


def test_the_database_is_migrated_before_the_roll_out(cluster, operator) -> None:
    operator(migrated_app)
    cluster.apply(custom("MigratedApp", "shop", version="v1"))
    cluster.wait("migratedapp", "shop", "Ready=False")
    migration = eventually(lambda: cluster.list("pods", labels="job-name=shop-v1"), what="the Pod of the Job")[0]
    assert cluster.get("deployment", "shop") is None
    ends = {"simulate.steersman.dev/exit-after": "0s"}
    cluster.patch("pod", migration["metadata"]["name"], {"metadata": {"annotations": ends}})
    cluster.wait("migratedapp", "shop", "Ready")
    assert cluster.get("deployment", "shop") is not None


def test_a_service_needs_an_owner_and_gets_names_of_ports(cluster, operator) -> None:
    operator(required_labels)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}, {"port": 443}]},
    }
    with pytest.raises(CallError, match="needs the label owner"):
        cluster.apply(service)
    cluster.apply({**service, "metadata": {"name": "web", "labels": {"owner": "blue"}}})
    assert [port["name"] for port in cluster.get("service", "web")["spec"]["ports"]] == ["port-80", "port-443"]


@simulated(seed=2)
async def test_many_changes_are_one_report(simulation) -> None:
    running = await simulation.operator(debounced_report)
    for number in range(20):
        await simulation.apply(pod(f"pod-{number}"))
    await simulation.passes(seconds=30)
    found = await simulation.client.get(debounced_report.Namespace, "default")
    assert found.metadata.annotations[debounced_report.PHASES] == "Running=20"
    assert len([r for r in running.reconciles if r.name == "default"]) < 10


@simulated(seed=3)
async def test_an_object_is_deleted_when_it_expires(simulation) -> None:
    await simulation.operator(expiring)
    client = simulation.client
    start = (await client.get(debounced_report.Namespace, "default")).metadata.creation_timestamp
    at = (start + timedelta(minutes=20)).isoformat()
    await simulation.apply(config_map("offer", annotations={expiring.EXPIRES: at}))
    await simulation.passes(minutes=15)
    assert (await client.get(expiring.ConfigMap, "offer", namespace="default")).metadata.name == "offer"
    await simulation.passes(minutes=10)
    assert "offer" not in [o.metadata.name async for o in client.iterate(expiring.ConfigMap, namespace="default")]


def test_every_pattern_is_one_small_file() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in Path(__file__).parents[1].glob("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > 65} == {}
