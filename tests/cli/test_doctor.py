"""`steersman doctor`: each problem has a name and a remedy; each passed check is one line."""

from __future__ import annotations

import base64
import copy
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from steersman.cli.dispatch import run
from steersman.cli.doctor.checks import check_clock, check_local, check_server
from steersman.manifests import classes_of, crds

APP = """
from steersman import Context, Model, ObjectMeta, Operator, Resource
from steersman.k8s import ConfigMap


class SiteSpec(Model):
    colour: str = "blue"


class Site(Resource, group="doctor.steersman.dev", version="v1"):
    spec: SiteSpec = SiteSpec()


operator = Operator("sites")


@operator.controller(owns=[ConfigMap])
async def reconcile(site: Site, ctx: Context) -> None: ...
"""


@pytest.fixture
def command(capsys, monkeypatch, tmp_path, cluster):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "patient.py").write_text(APP)

    def call(*words, kubeconfig=cluster.kubeconfig):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(["doctor", *map(str, words), "--kubeconfig", str(kubeconfig)])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return ended.value.code or 0, out

    yield call
    sys.modules.pop("patient", None)


def crd() -> dict[str, Any]:
    import patient

    return crds(classes_of(patient.operator))[0]


def test_a_healthy_cluster_is_one_line_a_check(command):
    code, out = command()
    assert code == 0, out
    checks = [line[6:].partition(":")[0] for line in out.splitlines() if line.startswith("ok")]
    assert checks == ["versions", "kubeconfig", "server", "clock", "identity", "webhooks"]


def test_in_a_project_its_operator_is_checked_without_being_named(command, tmp_path):
    (tmp_path / "PROJECT").write_text("package: patient\n")
    out = command()[1]
    assert "crds: " in out
    assert "permissions: " in out


def test_an_operators_crds_are_checked(command, cluster):
    code, out = command("patient:operator")
    assert code == 1
    assert "fail  crds: sites.doctor.steersman.dev is not installed\n      steersman install" in out

    cluster.apply(crd())
    code, out = command("patient:operator")
    assert code == 0, out
    assert "ok    crds: sites.doctor.steersman.dev is installed and serves v1" in out
    assert "permissions of the operator's roles are granted" in out

    other = copy.deepcopy(crd())
    other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["extra"] = {
        "type": "string"
    }
    cluster.apply(other)
    code, out = command("patient:operator", "--output", "json")
    (found,) = [f for f in json.loads(out[out.index("[") :]) if f["check"] == "crds"]
    assert found["level"] == "warn"
    assert "spec.extra: was removed" in found["text"]
    assert "steersman diff --cluster" in found["hint"]


def test_rights_that_a_service_account_lacks_are_named(command):
    code, out = command("patient:operator", "--as", "system:serviceaccount:sites-system:sites")
    assert code == 1
    assert "fail  permissions: not allowed to create configmaps" in out
    assert "apply config/rbac" in out
    assert "skip  crds" in out


def pem(days: int) -> str:
    now = datetime.now(UTC)
    made = _certificate(now - timedelta(days=30), now + timedelta(days=days))
    return base64.b64encode(made).decode()


def _certificate(start: datetime, end: datetime) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), start, end)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    ("client", "policy", "words"),
    [
        ({"service": {"name": "hook", "namespace": "nowhere"}}, "Fail", "fail  webhooks: {}: has no caBundle"),
        (
            {"service": {"name": "hook", "namespace": "nowhere"}, "caBundle": pem(100)},
            "Fail",
            "fail  webhooks: {}: there is no Service nowhere/hook; its requests are refused",
        ),
        (
            {"service": {"name": "hook", "namespace": "nowhere"}, "caBundle": pem(100)},
            "Ignore",
            "warn  webhooks: {}: there is no Service nowhere/hook\n",
        ),
        ({"url": "https://127.0.0.1:1/x", "caBundle": pem(-1)}, "Fail", "fail  webhooks: {}: its caBundle has expired"),
        ({"url": "https://127.0.0.1:1/x", "caBundle": pem(3)}, "Fail", "warn  webhooks: {}: its caBundle expires on"),
    ],
)
def test_webhooks_that_stop_writes_are_named(command, cluster, client, policy, words):
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"sick-{cluster.namespace}"},
        "webhooks": [
            {
                "name": "a.example.com",
                "clientConfig": client,
                "failurePolicy": policy,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "rules": [
                    {"apiGroups": ["x.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}
                ],
            }
        ],
    }
    cluster.apply(hook)
    try:
        code, out = command()
    finally:
        cluster.delete("validatingwebhookconfiguration", hook["metadata"]["name"])
    subject = f"validatingwebhookconfiguration/sick-{cluster.namespace} a.example.com"
    assert words.format(subject) in out
    assert code == (1 if words.startswith("fail") else 0)


def test_a_cluster_that_is_not_there_is_told_once(command, tmp_path, cluster):
    document = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    (tmp_path / "config").chmod(0o644)
    code, out = command(kubeconfig=tmp_path / "config")
    assert code == 1
    assert "fail  server: " in out
    assert "is the cluster running" in out
    assert f"warn  kubeconfig: {tmp_path}/config can be read by others\n      chmod 600 {tmp_path}/config" in out


def test_a_missing_kubeconfig_is_a_finding(command, tmp_path):
    code, out = command(kubeconfig=tmp_path / "none")
    assert code == 1
    assert "fail  kubeconfig: " in out


class Server:
    """Answers `/version` as a server whose clock and version are given."""

    def __init__(self, date: str | None = None, version: str = "v1.36.0") -> None:
        self.raw = self
        self._date, self._version = date, version

    async def request(self, method: str, path: str) -> Any:
        return SimpleNamespace(headers={} if self._date is None else {"date": self._date})

    async def server_version(self) -> Any:
        return SimpleNamespace(git_version=self._version, major="", minor="")


@pytest.mark.parametrize(
    ("ours", "level", "words"),
    [
        (0.5, "ok", "differs"),
        (2.9, "ok", "differs"),
        (5.5, "warn", "4 s ahead"),
        (-5.0, "warn", "5 s behind"),
        (120.0, "fail", "119 s ahead"),
    ],
)
async def test_clocks_are_compared_within_a_second(ours, level, words):
    date = "Thu, 01 Jan 2026 00:00:00 GMT"
    epoch = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    (found,) = [f async for f in check_clock(Server(date), lambda: epoch + ours)]
    assert (found.level, words in found.text) == (level, True), found


async def test_a_server_without_a_date_is_skipped():
    (found,) = [f async for f in check_clock(Server(), lambda: 0.0)]
    assert found.level == "skip"


@pytest.mark.parametrize(
    ("version", "level"),
    [("v1.28.3", "fail"), ("v1.30.0-gke.1", "warn"), ("v1.36.2", "ok"), ("v1.40.0", "ok"), ("odd", "warn")],
)
async def test_versions_are_judged(version, level):
    (found,) = [f async for f in check_server(Server(version=version))]
    assert found.level == level


def test_an_old_python_fails():
    assert next(check_local((3, 10, 1))).level == "fail"
    assert next(check_local((3, 12, 0))).level == "ok"


def test_refused_credentials_are_one_finding_that_names_the_way_out(command, cluster, tmp_path):
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    for user in config["users"]:
        user["user"] = {"token": "revoked"}
    refused = tmp_path / "refused.yaml"
    refused.write_text(yaml.safe_dump(config))
    refused.chmod(0o600)

    code, out = command("patient:operator", kubeconfig=refused)

    assert code == 1
    context = config["current-context"]
    assert f"fail  identity: the API server refused the credentials of context {context!r} (401" in out
    assert f"renew the token or client certificate in {refused};" in out
    assert "is the cluster running" not in out
    assert "skip" not in out
    assert "1 failed" in out
