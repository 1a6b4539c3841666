"""Webhooks in the life of a replica: start and end of serving, and the available caches."""

import asyncio
import socket
import time
import urllib.request

import pytest

from steersman import Admission, DeniedError, Operator, WebhookOptions, replace
from steersman.client.config import load_config
from steersman.k8s import ConfigMap, Secret
from steersman.operator import Settings
from steersman.operator.http_server import BindError
from steersman.operator.run import Replica
from steersman.operator.settings import SettingsError
from steersman.pki import Authority
from steersman.testing import CallError

VALIDATING = "validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/{}/configmaps"


def configmap(name="m", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def create(cluster, body, query="", plural="configmaps"):
    return cluster.call("POST", f"/api/v1/namespaces/{cluster.namespace}/{plural}{query}", body)


def refusing(name, **options):
    operator = Operator(name)

    @operator.validator(options=WebhookOptions(**options))
    async def refuse(new: ConfigMap) -> None:
        raise DeniedError(f"{name} lets nothing pass")

    return operator


def configurations(cluster, name):
    return cluster.list(VALIDATING, labels=f"steersman.dev/local-run={name}")


def test_a_webhook_reads_what_it_declares_from_the_cache(cluster, operator):
    """H3: and nothing else; a kind that is not declared is logged, and not reported to the client."""
    injector = Operator("injector")

    @injector.mutator(on="create", reads=[Secret])
    async def greet(obj: ConfigMap, ctx: Admission) -> ConfigMap:
        found = ctx.get(Secret, obj.data["from"])
        names = sorted(s.metadata.name for s in ctx.list(Secret, labels={"greeting": "yes"}))
        return replace(obj, data={**obj.data, "found": str(found is not None), "names": ",".join(names)})

    cluster.apply(
        *(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"greeting": "yes"}}}
            for name in ("one", "two")
        )
    )
    operator(injector)
    made = create(cluster, {**configmap(**{"from": "one"})})
    assert (made["data"]["found"], made["data"]["names"]) == ("True", "one,two")
    made = create(cluster, {**configmap("n", **{"from": "three"})})
    assert made["data"]["found"] == "False"


def test_a_blocking_function_reads_from_the_cache_in_its_thread(cluster, operator):
    blocking = Operator("blocking")

    @blocking.validator(reads=[Secret])
    def check(new: ConfigMap, ctx: Admission) -> None:
        if ctx.get(Secret, "forbidden") is not None:
            raise DeniedError("there is a Secret that forbids it")

    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "forbidden"}})
    operator(blocking)
    with pytest.raises(CallError, match="there is a Secret that forbids it"):
        create(cluster, configmap())


def test_an_operator_of_webhooks_alone_runs_and_takes_its_configuration_back(cluster, operator):
    """H2: ready means that it is asked."""
    running = operator(refusing("alone"))
    with pytest.raises(CallError, match="alone lets nothing pass"):
        create(cluster, configmap())
    assert len(configurations(cluster, "alone")) == 1
    running.stop()
    assert configurations(cluster, "alone") == []
    create(cluster, configmap())


def test_a_standby_serves_webhooks_too(cluster, operator):
    """L4: the leader is another replica, and this one answers all the same."""
    leading = Operator("pair")

    @leading.timer(3600)
    async def nothing() -> None: ...

    operator(leading, settings={"leader_elect": True}, admin=True)
    standby = operator(refusing("pair"), settings={"leader_elect": True}, admin=True, wait=False)

    def refused():
        try:
            create(cluster, configmap(), "?dryRun=All")
        except CallError as problem:
            return "pair lets nothing pass" in str(problem)
        return False

    deadline = time.monotonic() + 60
    while not refused():
        assert time.monotonic() < deadline, standby.log
        time.sleep(0.02)
    assert not [line for line in standby.log if line["event"] == "operator_started"]


def test_a_dry_run_leaves_the_cluster_alone(cluster, operator):
    """H5: nothing is registered, and that is said."""
    running = operator(refusing("dry"), settings={"dry_run": True})
    assert configurations(cluster, "dry") == []
    create(cluster, configmap())
    assert any(line["event"] == "webhooks_not_registered" and "dry run" in line["reason"] for line in running.log)


def test_no_address_serves_nothing_and_says_so(cluster, operator):
    running = operator(refusing("silent"), settings={"webhook_bind_address": "0"})
    create(cluster, configmap())
    assert any(line["event"] == "webhooks_not_served" for line in running.log)


def test_a_port_that_is_taken_is_said_with_the_flag(cluster, operator):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        running = operator(refusing("late"), settings={"webhook_bind_address": f"127.0.0.1:{port}"}, wait=False)
        with pytest.raises(BindError, match="--webhook-bind-address"):
            running.wait_ready()
        running.problem = None


@pytest.mark.slow
def test_who_may_not_register_webhooks_is_told_what_to_do(cluster):
    """H2: an identity without the rights ends at once, with the ways out, and leaves nothing behind."""
    kubeconfig = cluster.service_account_kubeconfig("poor", namespace=cluster.namespace)
    settings = Settings(
        namespaces=(cluster.namespace,),
        leader_elect=False,
        lease_namespace=cluster.namespace,
        metrics_bind_address="0",
        health_probe_bind_address="0",
        webhook_bind_address="127.0.0.1:0",
        gc_tuning=False,
    )
    replica = Replica(refusing("poor"), load_config(kubeconfig), settings)
    with pytest.raises(SettingsError, match=r"webhooks cannot be registered: .*forbidden.*--webhook-bind-address=0"):
        asyncio.run(asyncio.wait_for(replica.run(asyncio.Event()), 90))


@pytest.mark.slow
def test_a_server_that_shows_no_certificate_where_one_is_demanded_is_told_at_the_start(cluster, operator, tmp_path):
    """H1: callers are authenticated where a client CA is configured, and this API server has nothing to show."""
    authority = tmp_path / "clients.pem"
    authority.write_bytes(Authority.create("clients").cert_pem)
    running = operator(refusing("strict"), settings={"webhook_client_ca": str(authority)}, wait=False)
    with pytest.raises(SettingsError, match="the API server cannot call the webhooks"):
        running.wait_ready()
    running.problem = None
    assert configurations(cluster, "strict") == []


def test_a_client_authority_that_is_none_is_refused(cluster, operator, tmp_path):
    authority = tmp_path / "clients.pem"
    authority.write_text("nothing of that sort")
    running = operator(refusing("odd"), settings={"webhook_client_ca": str(authority)}, wait=False)
    with pytest.raises(SettingsError, match=r"--webhook-client-ca .*clients\.pem: it has no certificates"):
        running.wait_ready()
    running.problem = None


def test_readiness_waits_for_the_webhook_server(cluster, operator, unused_port):
    """H2: /readyz reports it over HTTP."""
    probes = f"127.0.0.1:{unused_port}"
    running = operator(refusing("probed"), settings={"health_probe_bind_address": probes})
    with urllib.request.urlopen(f"http://{probes}/readyz?verbose", timeout=5) as answer:
        assert answer.status == 200
        assert b"webhooks" in answer.read()
    running.stop()


@pytest.fixture
def unused_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_what_a_killed_run_left_behind_is_taken_away_by_the_next(cluster, operator):
    """H2: only those of ended processes of this machine."""
    from steersman.webhook.registration import HOST, LABEL

    def left(name, host, port):
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name, "labels": {LABEL: "heir"}, "annotations": {HOST: host}},
            "webhooks": [
                {
                    "name": "left.webhook.example.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "clientConfig": {"url": f"https://127.0.0.1:{port}/x"},
                    "rules": [],
                }
            ],
        }

    here = socket.gethostname()
    with socket.socket() as alive:
        alive.bind(("127.0.0.1", 0))
        alive.listen()
        for document in (
            left("heir-dead", here, 1),
            left("heir-elsewhere", "another-machine", 1),
            left("heir-alive", here, alive.getsockname()[1]),
        ):
            cluster.call("POST", f"/apis/admissionregistration.k8s.io/v1/{VALIDATING}", document)
        try:
            operator(refusing("heir"))
            names = {c["metadata"]["name"] for c in configurations(cluster, "heir")}
            assert {"heir-elsewhere", "heir-alive"} < names
            assert "heir-dead" not in names
        finally:
            for name in ("heir-elsewhere", "heir-alive"):
                cluster.delete("validatingwebhookconfiguration", name)
