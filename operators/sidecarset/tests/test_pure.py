"""Defaults, selectors, injection and planning as pure functions, over anything there may be."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steersman import LabelSelector, LabelSelectorRequirement, ObjectMeta, replace
from steersman.client import Client, Invalid
from steersman.k8s import Container, Pod, PodSpec
from steersman.models import from_dict, to_dict
from steersman.testing import EmbeddedCluster

from sidecarset import containers
from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet, SidecarSetSpec, UpdateStrategy
from sidecarset.defaults import defaulted, pull_policy, with_defaults
from sidecarset.injection import ANNOTATION, injected, is_sidecar, record_of, records, written
from sidecarset.rollout import State, look, patch_for, plan, share
from sidecarset.selectors import can_overlap, selector_of
from sidecarset.validation import conflicts, errors_of

KEYS, VALUES = ["a", "b"], ["x", "y", "z"]
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
rules = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        key=st.sampled_from(KEYS),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple),
    ),
    st.builds(
        LabelSelectorRequirement, key=st.sampled_from(KEYS), operator=st.sampled_from(["Exists", "DoesNotExist"])
    ),
)
selectors = st.builds(LabelSelector, match_labels=labels, match_expressions=st.lists(rules, max_size=3).map(tuple))
images = st.sampled_from(["busybox", "busybox:1", "busybox:2", "r.example.com:5000/a/b:latest"])


def sidecars(name="one", *, generation=1, selector=None, strategy=None, **images):
    made = tuple(Container(name=key, image=image) for key, image in (images or {"s": "busybox:1"}).items())
    spec = SidecarSetSpec(
        selector=selector or LabelSelector(match_labels={"a": "x"}),
        containers=made,
        update_strategy=strategy or UpdateStrategy(),
    )
    return SidecarSet(metadata=ObjectMeta(name=name, generation=generation), spec=spec)


def pod(name="p", *names, labels=None, annotations=None):
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            labels=labels or {"a": "x"},
            annotations=annotations or {},
        ),
        spec=PodSpec(containers=tuple(Container(name=n, image="app:1") for n in names or ("main",))),
    )


@pytest.mark.slow
@given(selectors, selectors)
@settings(max_examples=300, deadline=None)
def test_selectors_overlap_just_when_some_labels_match_both(one, other):
    every = [
        {k: v for k, v in (("a", a), ("b", b)) if v is not None}
        for a in (None, *VALUES, "w")
        for b in (None, *VALUES, "w")
    ]
    both = any(selector_of(one).matches(found) and selector_of(other).matches(found) for found in every)
    assert can_overlap(one, other) == can_overlap(other, one) == both


def test_pull_policies_follow_the_tag():
    assert {
        image: pull_policy(image) for image in ("a", "a:latest", "a:1", "h:5000/a", "h:5000/a:1", "a@sha256:0")
    } == {
        "a": "Always",
        "a:latest": "Always",
        "a:1": "IfNotPresent",
        "h:5000/a": "Always",
        "h:5000/a:1": "IfNotPresent",
        "a@sha256:0": "IfNotPresent",
    }


sets = st.lists(
    st.tuples(
        st.sampled_from(["s1", "s2", "s3"]), selectors, st.dictionaries(st.sampled_from("uvw"), images, min_size=1)
    ),
    unique_by=lambda item: item[0],
)


@given(sets, labels, st.sampled_from(["default", "kube-system", "kube-public"]), st.randoms())
@settings(max_examples=200, deadline=None)
def test_injection_is_stable_idempotent_and_adds_each_name_once(found, labels, namespace, random):
    every = [sidecars(name, selector=selector, **images) for name, selector, images in found]
    before = pod(labels=labels or {"c": "c"})
    once = injected(before, every, namespace)
    random.shuffle(every)
    assert injected(before, every, namespace) == once
    assert injected(once, every, namespace) == once
    names = [c.name for c in once.spec.containers]
    assert names[0] == "main"
    assert len(set(names)) == len(names)
    matching = [s for s in every if selector_of(s.spec.selector).matches(before.metadata.labels)]
    if namespace != "default":
        assert once == before
    else:
        assert set(records(once)) == {s.metadata.name for s in matching}
        assert set(names[1:]) == {c.name for s in matching for c in s.spec.containers}
        assert all(is_sidecar(c) for c in once.spec.containers[1:])


def test_a_record_that_cannot_be_read_says_nothing():
    for text in ("", "[]", "{", '{"a": 1}', "null"):
        assert records(pod(annotations={ANNOTATION: text})) == {}


def test_defaulting_twice_is_defaulting_once():
    one = defaulted(sidecars(u="busybox", v="busybox:2"))
    assert defaulted(one) == one


def test_a_set_that_means_the_same_has_the_same_content():
    assert record_of(sidecars()) == record_of(defaulted(sidecars()))
    assert record_of(sidecars(s="busybox:1")).shape == record_of(sidecars(s="busybox:latest")).shape
    assert record_of(sidecars(s="busybox:1")).hash != record_of(sidecars(s="busybox:latest")).hash


def running(name, record, *, ready=True, image="busybox:1", phase="Running"):
    """A Pod as the cluster has it, injected from `record`."""
    made = injected(pod(name), [sidecars(s=image)], "default")
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    body = {**to_dict(made), "status": status}
    body["metadata"]["annotations"] = {ANNOTATION: written({"one": record})}
    return from_dict(Pod, body)


OLD = record_of(sidecars(s="busybox:1"))
NEW = sidecars(generation=2, s="busybox:2")
OTHER = replace(OLD, shape="another", hash="another")
SAME = replace(record_of(NEW), generation=1)
amounts = st.one_of(st.integers(0, 12), st.integers(0, 100).map(lambda n: f"{n}%"))
pod_states = st.lists(st.tuples(st.sampled_from([OLD, OTHER, SAME, record_of(NEW)]), st.booleans()), max_size=12)


@given(pod_states, amounts, amounts)
@settings(max_examples=300, deadline=None)
def test_a_plan_respects_max_unavailable_and_partition(scenario, most, partition):
    pods = [running(f"p{n:02}", record, ready=ready) for n, (record, ready) in enumerate(scenario)]
    new = replace(
        NEW, spec=replace(NEW.spec, update_strategy=UpdateStrategy(max_unavailable=most, partition=partition))
    )
    doing = plan(new, pods)
    total = len(pods)
    unavailable = {p.metadata.name for p, (_, ready) in zip(pods, scenario, strict=True) if not ready}
    broken = unavailable | {p.metadata.name for p in doing.update}
    assert len(broken) <= max(share(most, total), len(unavailable))
    old = [p for p, (record, _) in zip(pods, scenario, strict=True) if record in (OLD, OTHER)]
    assert len(doing.update) == 0 or len(old) - len(doing.update) >= share(partition, total)
    assert all(records(p)["one"] == OLD for p in doing.update)
    assert len(doing.restamp) == sum(record == SAME for record, _ in scenario)
    assert doing.status.matched_pods == total
    assert doing.status.updated_pods == sum(record == record_of(new) for record, _ in scenario)
    assert doing.status.ready_pods == sum(ready for _, ready in scenario)


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 5), st.data())
@settings(max_examples=100, deadline=None)
def test_a_roll_out_ends_while_pods_fail_and_vanish(count, most, partition, data):
    """Pods are made unready or taken away between the steps; in the end just `partition` keep the older image."""
    new = replace(
        NEW, spec=replace(NEW.spec, update_strategy=UpdateStrategy(max_unavailable=most, partition=partition))
    )
    pods = {f"p{n:02}": running(f"p{n:02}", OLD) for n in range(count)}
    for _ in range(40):
        hit = data.draw(st.sampled_from(["none", "none", "fail", "vanish", "heal"]))
        if pods and hit in ("fail", "vanish"):
            name = data.draw(st.sampled_from(sorted(pods)))
            if hit == "vanish":
                del pods[name]
            else:
                pods[name] = ready(pods[name], False)
        elif hit == "heal":
            pods = {name: ready(p, True) for name, p in pods.items()}
        down = sum(not is_ready(p) for p in pods.values())
        for each in plan(new, pods.values()).update:
            pods[each.metadata.name] = ready(patched(new, each), False)
        assert sum(not is_ready(p) for p in pods.values()) <= max(most, down)
    for _ in range(count + 1):
        pods = {name: ready(p, True) for name, p in pods.items()}
        for each in plan(new, pods.values()).update:
            pods[each.metadata.name] = patched(new, each)
    older = sum(images_of(p) == ["busybox:1"] for p in pods.values())
    assert older <= min(partition, len(pods))
    assert plan(new, pods.values()).update == ()


def patched(new, pod):
    return from_dict(Pod, patch_for(new, pod).apply(to_dict(pod)))


def ready(pod, value):
    body = to_dict(pod)
    body["status"]["conditions"] = [{"type": "Ready", "status": str(value)}]
    return from_dict(Pod, body)


def is_ready(pod):
    return pod.status.conditions[0].status == "True"


def images_of(pod):
    return [c.image for c in pod.spec.containers if is_sidecar(c)]


def test_a_patch_changes_the_image_the_record_and_nothing_else():
    before = running("p", OLD)
    after = patched(NEW, before)
    assert images_of(after) == ["busybox:2"]
    assert records(after)["one"].generation == 2
    assert records(after)["one"].images == {"s": "busybox:1"}
    assert [c.name for c in after.spec.containers] == ["main", "s"]
    (seen,) = look(NEW, [after])
    assert seen.state is State.CURRENT


def test_a_pod_whose_kubelet_lags_behind_is_not_available():
    body = to_dict(patched(NEW, running("p", OLD)))
    body["metadata"]["generation"] = 2
    body["status"]["observedGeneration"] = 1
    assert not look(NEW, [from_dict(Pod, body)])[0].available
    body["status"] |= {"observedGeneration": 2, "containerStatuses": [status("docker.io/library/busybox:1")]}
    assert not look(NEW, [from_dict(Pod, body)])[0].available
    body["status"]["containerStatuses"] = [status("docker.io/library/busybox:2")]
    assert look(NEW, [from_dict(Pod, body)])[0].available


def test_a_pod_that_still_runs_the_old_image_does_not_count_as_updated():
    body = to_dict(patched(NEW, running("p", OLD)))
    body["status"]["containerStatuses"] = [status("docker.io/library/busybox:1")]
    before = plan(NEW, [from_dict(Pod, body)])
    assert (before.status.matched_pods, before.status.updated_pods, before.update) == (1, 0, ())
    (condition,) = before.status.conditions
    assert (condition.status, condition.reason) == ("False", "RollingUpdate")
    assert condition.message == "1 still run the image before the new one"
    body["status"]["containerStatuses"] = [status("docker.io/library/busybox:2")]
    after = plan(NEW, [from_dict(Pod, body)]).status
    assert (after.updated_pods, after.conditions[0].status) == (1, "True")


def status(image):
    return {"name": "s", "image": image, "imageID": "", "ready": True, "restartCount": 0}


def test_a_set_made_anew_under_the_name_of_another_is_another():
    pods = [running("p", OLD)]
    assert look(sidecars(s="busybox:2"), pods)[0].state is State.IMAGES
    assert look(sidecars(t="busybox:1"), pods)[0].state is State.RECREATE


def test_sets_conflict_only_where_they_can_meet():
    apart = LabelSelector(match_labels={"a": "y"})
    assert [e.field for e in conflicts(sidecars("new"), [sidecars("old")])] == ["spec.containers[0].name"]
    assert list(conflicts(sidecars("new", selector=apart), [sidecars("old")])) == []
    assert list(conflicts(sidecars("old"), [sidecars("old")])) == []
    assert list(errors_of(sidecars())) == []


# Containers: the same refusals, by the same words, as the API server's.

names = st.sampled_from(["a", "b", "web", "A", "", "-a", "x" * 64, "a.b"])
ports = st.sampled_from([0, 1, 80, 65535, 65536, -1])
port_names = st.sampled_from(["http", "", "HTTP", "a--b", "-a", "80", "x" * 16])
actions = st.fixed_dictionaries(
    {},
    optional={
        "exec": st.sampled_from([{"command": ["true"]}, {}]),
        "httpGet": st.fixed_dictionaries({"port": st.one_of(ports, port_names.filter(bool))}),
        "tcpSocket": st.fixed_dictionaries({"port": ports}),
    },
)
probes = st.builds(
    lambda action, numbers: {**action, **numbers},
    actions,
    st.fixed_dictionaries(
        {},
        optional={
            "successThreshold": st.integers(-1, 2),
            "failureThreshold": st.integers(-1, 2),
            "terminationGracePeriodSeconds": st.integers(-1, 1),
        },
    ),
)
bodies = st.fixed_dictionaries(
    {"name": names},
    optional={
        "image": st.sampled_from(["", "busybox"]),
        "imagePullPolicy": st.sampled_from(["Always", "Sometimes"]),
        "terminationMessagePolicy": st.sampled_from(["File", "Stdout"]),
        "ports": st.lists(
            st.fixed_dictionaries(
                {"containerPort": ports},
                optional={"name": port_names, "hostPort": ports, "protocol": st.sampled_from(["UDP", "ICMP"])},
            ),
            max_size=3,
        ),
        "env": st.lists(
            st.one_of(
                st.fixed_dictionaries({"name": st.sampled_from(["A", "", "A=B", "ä"])}),
                st.fixed_dictionaries(
                    {
                        "name": st.just("B"),
                        "valueFrom": st.sampled_from(
                            [
                                {},
                                {"configMapKeyRef": {"name": "c", "key": "k"}},
                                {"secretKeyRef": {"name": "C", "key": ""}},
                                {
                                    "configMapKeyRef": {"name": "c", "key": "a b"},
                                    "secretKeyRef": {"name": "c", "key": "k"},
                                },
                            ]
                        ),
                    },
                    optional={"value": st.sampled_from(["", "v"])},
                ),
            ),
            max_size=2,
        ),
        "envFrom": st.lists(
            st.sampled_from(
                [{}, {"configMapRef": {"name": "c"}}, {"secretRef": {}}, {"prefix": "=", "secretRef": {"name": "-"}}]
            ),
            max_size=2,
        ),
        "resources": st.sampled_from(
            [
                {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
                {"limits": {"gpu": "1"}, "requests": {"gpu": "1"}},
                {"requests": {"example.com/gpu": "1"}},
                {"limits": {"cpu": "-1"}, "requests": {"cpu": "-1"}},
                {"limits": {"hugepages-2Mi": "2Mi"}, "requests": {"hugepages-2Mi": "2Mi"}},
            ]
        ),
        "lifecycle": st.fixed_dictionaries({}, optional={"postStart": actions, "preStop": actions}),
        "livenessProbe": probes,
        "readinessProbe": probes,
        "securityContext": st.sampled_from(
            [{"runAsUser": -1}, {"runAsGroup": 1 << 40}, {"seccompProfile": {"type": "Localhost"}}]
        ),
        "volumeMounts": st.just([{"name": "v", "mountPath": "/v"}]),
        "restartPolicy": st.sampled_from(["Always", "Sometimes"]),
    },
)


@pytest.fixture(scope="module")
def validate():
    """What the API server says to containers: the fields and messages of a Pod that it is asked to create as a trial."""
    with EmbeddedCluster.start(nodes=0) as cluster, asyncio.Runner() as runner:

        async def ask(client, containers):
            spec = {"containers": containers, "automountServiceAccountToken": False}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "trial", "namespace": "default"},
                "spec": spec,
            }
            try:
                await client.create(pod, dry_run=True)
            except Invalid as refused:
                return [f"{cause.field}: {cause.message}" for cause in refused.causes]
            return []

        async def connect():
            return Client(cluster.config)

        client = runner.run(connect())
        yield lambda containers: runner.run(ask(client, containers))
        runner.run(client.close())


@given(found=st.lists(bodies, min_size=1, max_size=2))
@settings(max_examples=300, deadline=None)
def test_containers_are_refused_as_the_api_server_refuses_them(validate, found):
    plain = [to_dict(with_defaults(from_dict(Container, body))) for body in found]
    ours = [f"{e.field}: {e.message}" for e in containers.errors_of(plain, "spec.containers")]
    assert sorted(ours) == sorted(validate(plain)), json.dumps(plain)
