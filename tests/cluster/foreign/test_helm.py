"""Helm: a small chart is installed, upgraded, rolled back, listed and taken away."""

import json

import pytest

from .conftest import run

CHART = "apiVersion: v2\nname: small\nversion: %s\n"
TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}", labels: {app.kubernetes.io/managed-by: "{{ .Release.Service }}"}}
data: {greeting: "{{ .Values.greeting }}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec: {containers: [{name: c, image: busybox, args: ["-c", "sleep 3600"]}]}
{{- if .Capabilities.APIVersions.Has "policy/v1/PodDisruptionBudget" }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: "{{ .Release.Name }}"}
spec: {minAvailable: 0, selector: {matchLabels: {app: "{{ .Release.Name }}"}}}
{{- end }}
"""
HOOK = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ .Release.Name }}-before", annotations: {"helm.sh/hook": pre-install,pre-upgrade}}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox, args: ["-c", "true"]}]}}
"""


@pytest.fixture
def chart(tmp_path):
    home = tmp_path / "small"
    (home / "templates").mkdir(parents=True)
    (home / "Chart.yaml").write_text(CHART % "1.0.0")
    (home / "values.yaml").write_text("greeting: hello\nreplicas: 1\n")
    (home / "templates" / "all.yaml").write_text(TEMPLATE)
    (home / "templates" / "hook.yaml").write_text(HOOK)
    return home


@pytest.mark.slow
def test_a_chart_lives_its_life(cluster, namespace, helm, chart):
    def call(*arguments):
        return run(cluster, helm, "-n", namespace, *arguments, timeout=90)

    def greeting():
        return cluster.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/web")["data"]["greeting"]

    call("install", "web", chart, "--wait", "--timeout", "60s")
    assert greeting() == "hello"
    call("upgrade", "web", chart, "--set", "greeting=good day,replicas=2", "--wait", "--timeout", "60s")
    assert greeting() == "good day"
    deployment = cluster.call("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
    assert deployment["status"]["readyReplicas"] == 2
    call("rollback", "web", "1", "--wait", "--timeout", "60s")
    assert greeting() == "hello"
    listed = json.loads(call("list", "-o", "json"))
    assert [(r["name"], r["revision"], r["status"]) for r in listed] == [("web", "3", "deployed")]
    history = json.loads(call("history", "web", "-o", "json"))
    assert [entry["status"] for entry in history] == ["superseded", "superseded", "deployed"]
    assert "kind: PodDisruptionBudget" in call("get", "manifest", "web")
    call("uninstall", "web", "--wait", "--timeout", "60s")
    assert json.loads(call("list", "-a", "-o", "json")) == []
    assert cluster.call("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"] == []
