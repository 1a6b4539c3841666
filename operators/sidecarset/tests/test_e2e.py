"""SidecarSets as their users meet them, on the embedded cluster and with --cluster=real on a real API server."""

import pytest
import yaml
from steersman.client import ApiError
from steersman.testing import CallError, Fault, Match, eventually

from .support import ANNOTATION, PROJECT, SETS, container, images, names, pod, recorded, sidecarset


def refused(world, body):
    import asyncio

    from steersman import Dynamic

    async def go():
        async with world.cluster.client() as client:
            await client.create(Dynamic(body))

    with pytest.raises(ApiError) as caught:
        asyncio.run(go())
    assert caught.value.status.code == 422, caught.value.status
    return caught.value.status


def test_the_sample_is_injected_and_counted(world, running):
    sample = yaml.safe_load((PROJECT / "config/samples/sidecarset.yaml").read_text())
    world.make(sample)
    (made,) = world.create(pod("web"))
    assert names(made) == ["main", "sidecar1"]
    assert made["spec"]["containers"][1]["command"] == ["sleep", "999d"]
    assert {"name": "IS_INJECTED", "value": "true"} in made["spec"]["containers"][1]["env"]
    assert recorded(made)["test-sidecarset"]["generation"] == 1
    world.counts("test-sidecarset", 1, 1, 1)
    world.cluster.delete("pod", "web")
    world.counts("test-sidecarset", 0, 0, 0)


def test_defaults_are_written_down(world, running):
    probe = {"httpGet": {"port": 80}}
    bare = container("a", "nginx", ports=[{"containerPort": 80}], livenessProbe=probe)
    world.make(sidecarset("defaults", bare, container("b", "nginx:1.27"), container("c", "nginx:latest")))
    one, two, three = world.cluster.get("sidecarset", "defaults")["spec"]["containers"]
    assert [c["imagePullPolicy"] for c in (one, two, three)] == ["Always", "IfNotPresent", "Always"]
    assert one["terminationMessagePath"] == "/dev/termination-log"
    assert one["terminationMessagePolicy"] == "File"
    assert one["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert one["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


REFUSED = [
    (sidecarset("bad", labels={}), "spec.selector"),
    (sidecarset("bad", labels={"a b": "c"}), "spec.selector.matchLabels"),
    (
        sidecarset("bad", selector={"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]}),
        "spec.selector.matchExpressions[0].operator",
    ),
    (sidecarset("bad", containers=[]), "spec.containers"),
    (sidecarset("bad", container("a"), container("a")), "spec.containers[1].name"),
    (sidecarset("bad", container("Not_A_Label")), "spec.containers[0].name"),
    (sidecarset("bad", {"name": "a"}), "spec.containers[0].image"),
    (sidecarset("bad", {"image": "a"}), "spec.containers[0].name"),
    (
        sidecarset("bad", container("a", ports=[{"containerPort": 70000}])),
        "spec.containers[0].ports[0].containerPort",
    ),
    (sidecarset("bad", container("a", env=[{"name": "A=B"}])), "spec.containers[0].env[0].name"),
    (sidecarset("bad", container("a", livenessProbe={})), "spec.containers[0].livenessProbe"),
    (sidecarset("bad", container("a", imagePullPolicy="Often")), "spec.containers[0].imagePullPolicy"),
    (
        sidecarset("bad", container("a", volumeMounts=[{"name": "data", "mountPath": "/data"}])),
        "spec.containers[0].volumeMounts[0].name",
    ),
    (sidecarset("bad", updateStrategy={"maxUnavailable": "many"}), "spec.updateStrategy.maxUnavailable"),
    (sidecarset("bad", updateStrategy={"maxUnavailable": 0}), "spec.updateStrategy.maxUnavailable"),
    (sidecarset("bad", updateStrategy={"type": "Recreate"}), "spec.updateStrategy.type"),
    (sidecarset("bad", updateStrategy={"partition": -1}), "spec.updateStrategy.partition"),
]


def test_what_is_refused_is_a_422_that_names_the_field(world, running):
    for body, field in REFUSED:
        status = refused(world, body)
        assert field in [cause.field for cause in status.details.causes], status


def test_no_selector_no_containers_and_no_spec_are_422s_too(world, running):
    for name in ("selector", "containers"):
        body = sidecarset("bad")
        del body["spec"][name]
        assert name in refused(world, body).message
    body = sidecarset("bad")
    del body["spec"]
    assert "spec" in refused(world, body).message


def test_a_name_that_another_set_has_for_the_same_pods_is_refused(world, running):
    world.make(sidecarset("first", container("log")))
    status = refused(world, sidecarset("second", container("log"), labels={"tier": "web"}))
    assert [c.field for c in status.details.causes] == ["spec.containers[0].name"]
    assert "SidecarSet first" in status.message
    world.make(sidecarset("third", container("log"), labels={"app": "apache"}))


def test_three_overlapping_sets_are_injected_in_a_stable_order(world, running):
    world.make(
        sidecarset("c", container("c1"), labels={"tier": "web"}),
        sidecarset("a", container("a2"), container("a1")),
        sidecarset("b", container("b1")),
    )
    (both, one) = world.create(pod("both", {"app": "nginx", "tier": "web"}), pod("one"))
    assert names(both) == ["main", "a2", "a1", "b1", "c1"]
    assert names(one) == ["main", "a2", "a1", "b1"]
    assert sorted(recorded(both)) == ["a", "b", "c"]


def test_injecting_twice_adds_nothing(world, running):
    world.make(sidecarset("once"))
    (made,) = world.create(pod("first"))
    again = {**made, "metadata": {**pod("second")["metadata"], "annotations": made["metadata"]["annotations"]}}
    again["spec"] = {k: v for k, v in made["spec"].items() if k in ("containers", "terminationGracePeriodSeconds")}
    for each in again["spec"]["containers"]:
        each.pop("volumeMounts", None)
    (second,) = world.create(again)
    assert names(second) == names(made)
    assert recorded(second) == recorded(made)


def test_pods_that_opt_out_or_match_nothing_stay_as_they_are(world, running):
    world.make(sidecarset("picky"))
    made = world.create(
        pod("out", annotations={"sidecar.kruise.io/inject": "false"}), pod("other", {"app": "apache"}), pod("bare", {})
    )
    for each in made:
        assert names(each) == ["main"]
        assert ANNOTATION not in each["metadata"].get("annotations", {})
    world.counts("picky", 1, 0, 1)


def test_pods_of_kube_system_stay_as_they_are(world, operator):
    operator("sidecarset:operator", namespaces=[])
    world.make(sidecarset("everywhere", labels={"only": "here"}))
    for namespace in ("kube-system", "kube-public"):
        body = pod("theirs", {"only": "here"})
        body["spec"]["serviceAccountName"] = "default"
        eventually(
            lambda namespace=namespace: world.cluster.get("serviceaccount", "default", namespace=namespace),
            within=120,
            what="a service account",
        )
        (made,) = world.create(body, namespace=namespace)
        world.cluster.delete("pod", "theirs", namespace=namespace)
        assert names(made) == ["main"]


def test_a_pod_that_changes_its_labels_is_counted_where_it_is(world, running):
    world.make(sidecarset("blue", labels={"c": "blue"}), sidecarset("red", container("r"), labels={"c": "red"}))
    world.create(pod("one", {"c": "blue"}))
    world.counts("blue", 1, 1, 1)
    world.cluster.patch("pod", "one", {"metadata": {"labels": {"c": "red"}}})
    world.counts("blue", 0, 0, 0)
    world.counts("red", 1, 0, 1)
    assert world.settled("red")["waitingPods"] == 1


def test_finished_pods_do_not_count(world, running):
    world.make(sidecarset("jobs"))
    body = pod("done")
    body["spec"]["restartPolicy"] = "Never"
    body["metadata"]["annotations"] = {"simulate.steersman.dev/exit-after": "10ms"}
    world.create(body, pod("stays"))
    eventually(lambda: world.pod("done")["status"].get("phase") in ("Succeeded", "Failed"), within=120, what="it ends")
    world.counts("jobs", 1, 1, 1)


def test_a_new_image_reaches_running_pods_in_place(world, running):
    world.make(sidecarset("rolling", container("s", "busybox:1.35")))
    world.create(*(pod(f"p{n}") for n in range(4)))
    world.counts("rolling", 4, 4, 4)
    before = {p["metadata"]["uid"] for p in world.pods()}
    world.change("rolling", containers=[container("s", "busybox:1.36")])
    world.counts("rolling", 4, 4, 4)
    pods = world.pods()
    assert {p["metadata"]["uid"] for p in pods} == before
    assert {images(p)["s"] for p in pods} == {"busybox:1.36"}
    assert {recorded(p)["rolling"]["generation"] for p in pods} == {2}


def test_other_changes_wait_for_new_pods_and_say_so(world, running):
    world.make(sidecarset("slow", container("s", command=["sleep", "1d"])))
    world.create(pod("old"))
    world.counts("slow", 1, 1, 1)
    world.change("slow", containers=[container("s", command=["sleep", "2d"])])
    world.counts("slow", 1, 0, 1)
    status = world.settled("slow")
    assert status["waitingPods"] == 1
    assert status["conditions"][0]["reason"] == "WaitingForRecreation"
    world.cluster.delete("pod", "old")
    world.create(pod("new"))
    world.counts("slow", 1, 1, 1)
    assert world.settled("slow")["conditions"][0]["status"] == "True"


def test_partition_keeps_pods_and_not_update_all_of_them(world, running):
    world.make(sidecarset("parts", container("s", "busybox:1.35"), updateStrategy={"partition": 3}))
    world.create(*(pod(f"p{n}") for n in range(5)))
    world.counts("parts", 5, 5, 5)
    world.change("parts", containers=[container("s", "busybox:1.36")])
    world.counts("parts", 5, 2, 5)
    running.wait_idle()
    assert sorted(images(p)["s"] for p in world.pods()) == ["busybox:1.35"] * 3 + ["busybox:1.36"] * 2
    world.change("parts", updateStrategy={"partition": "20%"})
    world.counts("parts", 5, 4, 5)
    world.change("parts", updateStrategy={"partition": 0, "type": "NotUpdate"})
    running.wait_idle()
    assert sum(images(p)["s"] == "busybox:1.35" for p in world.pods()) == 1
    world.change("parts", updateStrategy={"type": "RollingUpdate"})
    world.counts("parts", 5, 5, 5)


def test_a_set_that_is_deleted_is_injected_no_more(world, running):
    world.make(sidecarset("gone"))
    world.cluster.delete("sidecarset", "gone")
    running.wait_idle()

    def injected():
        (made,) = world.create(pod("probe"))
        world.cluster.delete("pod", "probe")
        eventually(lambda: world.pod("probe") is None, within=60, what="the Pod is gone")
        return names(made)

    eventually(lambda: injected() == ["main"], within=60, what="no injection")


def test_a_pod_of_a_dry_run_leaves_nothing(world, running):
    world.make(sidecarset("dry"))
    made = world.cluster.call("POST", f"/api/v1/namespaces/{world.cluster.namespace}/pods?dryRun=All", pod("dry"))
    assert names(made) == ["main", "sidecar1"]
    assert world.pods() == []


def test_the_columns_are_those_of_the_design(world):
    with pytest.raises(CallError):
        world.cluster.call("GET", f"{SETS}/none")
    crd = world.cluster.get("crd", "sidecarsets.apps.kruise.io")
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [c["name"].upper() for c in columns] == ["MATCHED", "UPDATED", "READY", "AGE"]
    assert crd["spec"]["scope"] == "Cluster"


def frozen(namespace):
    """A policy that denies updates of the Pods of one namespace."""
    name = f"frozen-{namespace}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
                ]
            },
            "validations": [{"expression": "false", "message": "Pods are frozen until Monday"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
        },
    }
    return policy, binding


def test_an_update_that_a_policy_denies_is_reported_and_tried_again(world, running, monkeypatch):
    """A policy denies with 422, as a Pod that has changed since does; the one is reported, the other is not."""
    monkeypatch.setattr("sidecarset.controllers.sidecarset_controller.REFUSED_RETRY_SECONDS", 0.3)
    world.make(sidecarset("denied", container("s", "busybox:1.35")))
    world.create(pod("p0"), pod("p1"))
    world.counts("denied", 2, 2, 2)
    policy, binding = frozen(world.cluster.namespace)
    world.cluster.apply(policy, binding)

    def is_frozen():
        try:
            world.cluster.patch("pod", "p0", {"metadata": {"annotations": {"probe": "x"}}})
        except Exception as problem:
            return "frozen until Monday" in str(problem)
        return False

    eventually(is_frozen, within=120, what="the policy is in force")
    world.change("denied", containers=[container("s", "busybox:1.36")])
    status = world.settled("denied", lambda s: s["conditions"][0]["reason"] == "UpdateRefused")
    assert status["conditions"][0]["status"] == "False"
    assert "frozen until Monday" in status["conditions"][0]["message"]
    assert (status["matchedPods"], status["updatedPods"]) == (2, 0)
    events = eventually(
        lambda: [
            e for e in world.cluster.list("events.events.k8s.io", namespace="default") if e["reason"] == "UpdateRefused"
        ],
        within=60,
        what="an Event",
    )
    assert "frozen until Monday" in events[0]["note"]
    assert [r.error for r in running.reconciles if r.error] == []
    for each in (binding, policy):
        world.cluster.delete(each["kind"].lower(), each["metadata"]["name"])
    world.counts("denied", 2, 2, 2)


def test_an_update_that_a_role_forbids_is_reported(world, running, faults):
    world.make(sidecarset("denied", container("s", "busybox:1.35")))
    world.create(pod("p0"))
    world.counts("denied", 1, 1, 1)
    faults.add(Fault("answer", Match(verb="patch", resource="pods", user=running.user), 403, "Forbidden", "no role"))
    world.change("denied", containers=[container("s", "busybox:1.36")])
    status = world.settled("denied", lambda s: s["conditions"][0]["reason"] == "UpdateRefused")
    assert "no role" in status["conditions"][0]["message"]
    assert [r.error for r in running.reconciles if r.error] == []


def test_each_injection_and_each_update_is_one_line_of_the_log_that_says_why(world, running):
    world.make(sidecarset("told", container("s", "busybox:1.35")))
    world.create(pod("p0"))
    world.counts("told", 1, 1, 1)
    world.cluster.call("POST", f"/api/v1/namespaces/{world.cluster.namespace}/pods?dryRun=All", pod("dry"))
    world.change("told", containers=[container("s", "busybox:1.36")])
    world.counts("told", 1, 1, 1)
    injected = [line for line in running.log if line["event"] == "sidecars_injected"]
    assert [(line["pod"], line["containers"], line["level"]) for line in injected] == [("p0", ["s"], "info")]
    (updated,) = [line for line in running.log if line["event"] == "pod_updated"]
    assert (updated["pod"], updated["reason"]) == (f"{world.cluster.namespace}/p0", "images_changed")
    assert (updated["sidecarset"], updated["generation"], updated["images"]) == ("told", 2, {"s": "busybox:1.36"})
