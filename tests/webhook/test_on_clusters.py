"""Webhooks of running operators, asked by an API server: the embedded one, and the real one where there is one.

Handlers are made for one test each, so that nothing that one of them remembers reaches another.
"""

import asyncio
import socket
import threading
import time

import pytest

from steersman import (
    Admission,
    DeniedError,
    Dynamic,
    FieldError,
    Invalid,
    MatchCondition,
    Model,
    ObjectMeta,
    Operator,
    Resource,
    WebhookOptions,
    replace,
)
from steersman.client import ApiError
from steersman.k8s import ConfigMap, Container, Deployment, Pod
from steersman.k8s.autoscaling_v1 import Scale
from steersman.k8s.policy_v1 import Eviction
from steersman.operator.settings import SettingsError
from steersman.testing import CallError
from steersman.webhook import ClientConfig
from steersman.webhook import configurations as configurations_of

both = pytest.mark.parametrize("server", ["embedded", pytest.param("real", marks=pytest.mark.realcluster)])
pytestmark = both


class WidgetSpec(Model):
    size: int = 1
    colour: str | None = None


class Widget(Resource, group="webhook-tests.steersman.dev", version="v1"):
    spec: WidgetSpec = WidgetSpec()


WIDGETS = "/apis/webhook-tests.steersman.dev/v1/namespaces/{}/widgets"
MAPS = "/api/v1/namespaces/{}/configmaps"


def widget(name="w", **spec):
    return {"apiVersion": "webhook-tests.steersman.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def configmap(name="m", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def create(cluster, path, body, query=""):
    return cluster.call("POST", path.format(cluster.namespace) + query, body)


def asked(cluster, act, **options):
    """Return the result of `await act(client)` as the administrator."""

    async def go():
        async with cluster.client(**options) as client:
            return await act(client)

    return asyncio.run(go())


def refused(cluster, body):
    """The Status of a create that must not pass."""
    placed = Dynamic({**body, "metadata": {**body["metadata"], "namespace": cluster.namespace}})
    with pytest.raises(ApiError) as caught:
        asked(cluster, lambda client: client.create(placed))
    return caught.value.status


def eventually(condition, what, within=60.0):
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, f"after {within:g} s still not: {what}"
        time.sleep(0.02)
    return found


def configurations(cluster, operator_name):
    return [
        c["metadata"]["name"]
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        for c in cluster.list(kind, labels=f"steersman.dev/local-run={operator_name}")
    ]


def test_an_own_kind_is_defaulted_and_validated(server, cluster, operator):
    """H3: the error of a field is returned as a Status with a cause."""
    widgets = Operator("widgets")

    @widgets.defaulter
    async def colour(obj: Widget) -> Widget | None:
        return None if obj.spec.colour else replace(obj, spec=replace(obj.spec, colour="red"))

    @widgets.validator
    async def small(new: Widget, old: Widget | None, ctx: Admission) -> list[str]:
        if new.spec.size > 10:
            raise Invalid(FieldError.invalid("spec.size", new.spec.size, "must be at most 10"))
        if old is not None and old.spec.size > new.spec.size:
            raise DeniedError(f"{ctx.user.username} may not make it smaller")
        return ["purple is out of fashion"] if new.spec.colour == "purple" else []

    operator(widgets)
    assert create(cluster, WIDGETS, widget(size=3))["spec"] == {"size": 3, "colour": "red"}

    status = refused(cluster, widget("large", size=11))
    assert (status.code, status.reason) == (422, "Invalid")
    assert status.message == (
        'admission webhook "vwidget-v1.webhook-tests.steersman.dev" denied the request: '
        'Widget.webhook-tests.steersman.dev "large" is invalid: spec.size: Invalid value: 11: must be at most 10'
    )
    [cause] = status.details.causes
    assert (cause.reason, cause.field) == ("FieldValueInvalid", "spec.size")
    assert cause.message == "Invalid value: 11: must be at most 10"
    with pytest.raises(CallError, match="admin may not make it smaller") as smaller:
        cluster.patch("widget", "w", {"spec": {"size": 2}})
    assert smaller.value.status == 403


def test_a_mutation_of_a_built_in_kind_keeps_what_the_handler_did_not_touch(server, cluster, operator):
    """H4: the server's object differs from the one that was sent by what the handler changed, and by nothing else."""
    injector = Operator("injector")

    @injector.mutator(on="create", options=WebhookOptions(object_selector={"matchLabels": {"inject": "yes"}}))
    def inject(pod: Pod) -> Pod:
        agent = Container(name="agent", image="agent:1")
        return replace(pod, spec=replace(pod.spec, containers=(*pod.spec.containers, agent)))

    operator(injector)
    pods = "/api/v1/namespaces/{}/pods"

    def pod(name, **labels):
        container = {
            "name": "app", "image": "app:1", "env": [{"name": "A", "value": "1"}], "lifecycle": {},
            "startupProbe": {"grpc": {"port": 1}},
        }  # fmt: skip
        metadata = {"name": name, "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}

    plain = create(cluster, pods, pod("plain"), "?dryRun=All")
    injected = create(cluster, pods, pod("injected", inject="yes"), "?dryRun=All")
    assert [c["name"] for c in injected["spec"]["containers"]] == ["app", "agent"]

    def without(obj, *mounts):
        container = dict(obj["spec"]["containers"][0])
        container.pop("volumeMounts", None)  # of the ServiceAccount's token, of a random name
        return container

    assert without(injected) == without(plain)


def test_a_dry_run_is_known_to_the_handler(server, cluster, operator):
    """H5: a handler with effects elsewhere can leave them out, and the configuration says that it has none then."""
    seen = []
    maps = Operator("maps")

    @maps.validator(options=WebhookOptions(side_effects="NoneOnDryRun"))
    async def remember(new: ConfigMap, ctx: Admission) -> None:
        seen.append((new.metadata.name, ctx.dry_run))

    operator(maps)
    create(cluster, MAPS, configmap("tried"), "?dryRun=All")
    create(cluster, MAPS, configmap("made"))
    assert [s for s in seen if s[0] in ("tried", "made")] == [("tried", True), ("made", False)]


def test_a_crash_stops_the_request_and_tells_nobody_why(server, cluster, operator):
    """H3: a crash is a 500 without details; the log has them once, with the request's uid."""
    crashes = Operator("crashes")

    @crashes.validator
    def crash(new: ConfigMap) -> None:
        if new.metadata.name == "crash":
            raise RuntimeError("the password is hunter2")

    running = operator(crashes)
    status = refused(cluster, configmap("crash"))
    assert status.code == 500
    assert "failed calling webhook" in status.message
    assert "the webhook validate--v1-configmap failed; the reason is in the operator's log" in status.message
    assert "hunter2" not in str(status)
    told = [line for line in running.log if line["event"] == "webhook_failed"]
    assert [line["error"] for line in told] == ["the password is hunter2"]
    assert told[0]["request"]
    create(cluster, MAPS, configmap("fine"))  # the server lives


def test_a_warning_reaches_the_client(server, cluster, operator):
    """H3: beside an answer that lets the request pass."""
    warns = Operator("warns")

    @warns.validator
    async def old_fashioned(new: ConfigMap) -> str | None:
        return "purple is out of fashion" if "purple" in new.data else None

    operator(warns)
    heard = []

    purple = ConfigMap(metadata=ObjectMeta(name="m", namespace=cluster.namespace), data={"purple": "1"})
    asked(cluster, lambda client: client.create(purple), on_warning=lambda text, _request: heard.append(text))
    assert heard == ["purple is out of fashion"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_handler_that_hangs_is_given_up_in_time_and_the_failure_policy_decides(server, cluster, operator, policy):
    """H3: the deadline is shorter than the configuration's timeout, so the server answers before it is given up."""
    slow = Operator("slow")
    released = threading.Event()

    @slow.validator(options=WebhookOptions(timeout=2, failure_policy=policy))
    def wait(new: ConfigMap) -> None:
        if new.metadata.name == "slow":
            released.wait(20)

    running = operator(slow)
    try:
        if policy == "Fail":
            said = "the webhook validate--v1-configmap did not finish within 1.75 s"

            def gave_up() -> bool:
                status = refused(cluster, configmap("slow"))
                assert status.code == 500
                return said in status.message

            # On a machine that stands still for a quarter of a second the server may give up first: once, not always.
            eventually(gave_up, said, within=60)
        else:
            create(cluster, MAPS, configmap("slow"))
        eventually(lambda: [line for line in running.log if line["event"] == "webhook_timed_out"], "told")
        create(cluster, MAPS, configmap("fine"))  # one that hangs keeps no other from its answer
    finally:
        released.set()


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_an_operator_that_is_down_stops_what_it_must_check_unless_told_otherwise(server, cluster, operator, policy):
    """H2: without a server the failure policy decides; a stopped operator has removed its configurations."""
    gone = Operator("gone")

    @gone.validator(options=WebhookOptions(failure_policy=policy))
    async def pass_all(new: ConfigMap) -> None:
        return None

    running = operator(gone)
    create(cluster, MAPS, configmap("before"))
    [name] = configurations(cluster, "gone")
    left = cluster.get("validatingwebhookconfiguration", name)
    running.stop()
    assert configurations(cluster, "gone") == []
    eventually(lambda: create(cluster, MAPS, configmap("after"), "?dryRun=All"), "the server has forgotten")

    # As a process leaves it that was killed.
    metadata = {key: left["metadata"][key] for key in ("name", "labels", "annotations")}
    cluster.call(
        "POST",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {
            **{k: v for k, v in left.items() if k != "metadata"},
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata,
        },
    )
    try:
        probe = {
            **configmap("probe"),
            "metadata": {"name": "probe", "labels": left["webhooks"][-1]["objectSelector"]["matchLabels"]},
        }

        def in_force():
            try:
                create(cluster, MAPS, probe, "?dryRun=All")
            except CallError as problem:
                return "connection refused" in str(problem)
            return False

        eventually(in_force, "the server knows of the configuration again")
        if policy == "Ignore":
            create(cluster, MAPS, configmap("meanwhile"))
        else:
            status = refused(cluster, configmap("meanwhile"))
            assert status.code == 500
            assert "failed calling webhook" in status.message
            assert "connection refused" in status.message

        operator(gone)  # the next run takes away what the killed one has left
        [current] = configurations(cluster, "gone")
        assert current != name
        create(cluster, MAPS, configmap("again"))
    finally:
        cluster.delete("validatingwebhookconfiguration", name)


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_process_that_hangs_is_given_up_by_the_server_and_the_failure_policy_decides(server, cluster, policy):
    """H3: as an operator is that has been stopped by a debugger: it is connected to, and says nothing."""
    hung = Operator("hung")

    @hung.validator(options=WebhookOptions(timeout=1, failure_policy=policy))
    async def never(new: ConfigMap) -> None: ...

    selector = {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        [document] = configurations_of(
            hung.webhook_rules, name=f"hung-{cluster.namespace}", client_config=ClientConfig(url=url)
        )
        document["webhooks"][0]["namespaceSelector"] = selector
        cluster.apply(document)
        try:

            def tried():
                started = time.monotonic()
                try:
                    create(cluster, MAPS, configmap("tried"), "?dryRun=All")
                except CallError as problem:
                    return time.monotonic() - started, str(problem)
                return time.monotonic() - started, ""

            took, said = eventually(lambda: (found := tried())[0] > 0.9 and found, "the server asks")
            assert took < 5
            if policy == "Ignore":
                assert said == ""
            else:
                assert "failed with 500" in said
                assert 'failed calling webhook "vconfigmap-v1.core.k8s.io"' in said
                assert "context deadline exceeded" in said
        finally:
            cluster.delete("validatingwebhookconfiguration", document["metadata"]["name"])


def test_deletions_are_validated_too(server, cluster, operator):
    """H3: on a delete the handler is given the object that is to go."""
    keeper = Operator("keeper")

    @keeper.validator(on="delete")
    async def keep(old: ConfigMap) -> None:
        if old.data.get("keep") == "yes":
            raise DeniedError("it is still needed", code=409, reason="Conflict")

    operator(keeper)
    create(cluster, MAPS, configmap("kept", keep="yes"))
    create(cluster, MAPS, configmap("free"))
    path = MAPS.format(cluster.namespace)
    cluster.call("DELETE", f"{path}/free")
    with pytest.raises(CallError, match="it is still needed") as caught:
        cluster.call("DELETE", f"{path}/kept")
    assert caught.value.status == 409
    cluster.patch("configmap", "kept", {"data": {"keep": "no"}})


def test_requests_of_a_sub_resource_bring_its_own_kind(server, cluster, operator):
    """H3: a Scale, an Eviction, and options of a connection, each as the handler's annotation says."""
    guard = Operator("guard")

    @guard.validator(kind=Deployment, on="update", options=WebhookOptions(subresources=("scale",)))
    async def small(new: Scale, old: Scale | None) -> None:
        if new.spec.replicas > 5:
            raise DeniedError(f"from {old.spec.replicas} to {new.spec.replicas} is too far")

    @guard.mutator(kind=Deployment, on="update", options=WebhookOptions(subresources=("scale",)), name="round")
    async def even(new: Scale) -> Scale:
        return replace(new, spec=replace(new.spec, replicas=new.spec.replicas // 2 * 2))

    @guard.validator(kind=Pod, on="create", options=WebhookOptions(subresources=("eviction",)))
    async def stay(new: Eviction) -> None:
        raise DeniedError(f"{new.metadata.name} stays", code=429, reason="TooManyRequests")

    @guard.validator(kind=Pod, on="connect", options=WebhookOptions(subresources=("exec",)))
    async def out(new: Dynamic) -> None:
        raise DeniedError(f"no {new['command'][0]} here")

    labels = {"app": "web"}
    container = {"name": "web", "image": "web:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    cluster.apply(pod)
    operator(guard)
    assert cluster.scale("deployment", "web", 3)["spec"]["replicas"] == 2
    with pytest.raises(CallError, match="from 2 to 8 is too far"):
        cluster.scale("deployment", "web", 8)
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/p"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    with pytest.raises(CallError, match="p stays") as stays:
        cluster.call("POST", f"{path}/eviction", eviction)
    assert stays.value.status == 429
    with pytest.raises(CallError, match="no sh here"):
        cluster.call("POST", f"{path}/exec?command=sh&stdout=true")


def test_match_conditions_and_operations_limit_what_is_asked(server, cluster, operator):
    """H5: what the configuration leaves out costs nothing and changes nothing."""
    seen = []
    picky = Operator("picky")
    wanted = MatchCondition("only-red", "object.data.?colour.orValue('') == 'red'")

    @picky.mutator(on="create", options=WebhookOptions(match_conditions=[wanted]))
    async def stamp(obj: ConfigMap) -> ConfigMap:
        seen.append(obj.metadata.name)
        return replace(obj, data={**obj.data, "seen": "yes"})

    operator(picky)
    assert create(cluster, MAPS, configmap("red", colour="red"))["data"] == {"colour": "red", "seen": "yes"}
    assert create(cluster, MAPS, configmap("blue", colour="blue"))["data"] == {"colour": "blue"}
    cluster.patch("configmap", "red", {"data": {"seen": "no"}})
    assert seen == ["red"]


def test_a_large_object_passes(server, cluster, operator):
    """H3: a ConfigMap of the most that a server stores, twice in one request, is no reason to refuse."""
    large = Operator("large")

    @large.validator
    async def pass_all(new: ConfigMap, old: ConfigMap | None) -> None:
        return None

    operator(large)
    create(cluster, MAPS, configmap("large", text="x" * 1_000_000))
    made = cluster.patch("configmap", "large", {"data": {"more": "y"}})
    assert made["data"]["more"] == "y"


def test_requests_of_other_namespaces_are_not_asked_about(server, cluster, operator):
    """H2: a run that works in one namespace is in the way of no other."""
    jealous = Operator("jealous")

    @jealous.validator
    async def refuse(new: ConfigMap) -> None:
        raise DeniedError("nothing passes here")

    operator(jealous)
    assert "nothing passes here" in refused(cluster, configmap()).message
    cluster.call("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", configmap())


@pytest.mark.slow
def test_a_server_that_cannot_reach_us_is_told_at_the_start_and_left_alone(server, cluster, operator):
    """H2: the operator ends with the API server's own words, and leaves nothing that would stop others' writes."""
    far = Operator("far")

    @far.validator
    async def refuse(new: ConfigMap) -> None:
        raise DeniedError("nothing passes here")

    running = operator(far, settings={"webhook_url": "https://127.0.0.1:1"}, wait=False)
    with pytest.raises(SettingsError, match=r"cannot call the webhooks at https://127.0.0.1:1: .*connection refused"):
        running.wait_ready()
    running.problem = None
    assert configurations(cluster, "far") == []
