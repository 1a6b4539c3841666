"""SidecarSets as their users meet them, on the embedded cluster and with --cluster=real on a real API server."""

import pytest
import yaml
from steersman.client import ApiError
from steersman.testing import CallError, Fault, Match, eventually

from .support import ANNOTATION, PROJECT, SETS, container, images, names, pod, recorded, sidecarset


def refused(scenario, body):
    import asyncio

    from steersman import Dynamic

    async def go():
        async with scenario.cluster.client() as client:
            await client.create(Dynamic(body))

    with pytest.raises(ApiError) as caught:
        asyncio.run(go())
    assert caught.value.status.code == 422, caught.value.status
    return caught.value.status


def test_the_sample_is_injected_and_counted(scenario, running):
    sample = yaml.safe_load((PROJECT / "config/samples/sidecarset.yaml").read_text())
    scenario.make(sample)
    (made,) = scenario.create(pod("web"))
    assert names(made) == ["main", "sidecar1"]
    assert made["spec"]["containers"][1]["command"] == ["sleep", "999d"]
    assert {"name": "IS_INJECTED", "value": "true"} in made["spec"]["containers"][1]["env"]
    assert recorded(made)["test-sidecarset"]["generation"] == 1
    scenario.counts("test-sidecarset", 1, 1, 1)
    scenario.cluster.delete("pod", "web")
    scenario.counts("test-sidecarset", 0, 0, 0)


def test_defaults_are_written_down(scenario, running):
    probe = {"httpGet": {"port": 80}}
    bare = container("a", "nginx", ports=[{"containerPort": 80}], livenessProbe=probe)
    scenario.make(sidecarset("defaults", bare, container("b", "nginx:1.27"), container("c", "nginx:latest")))
    one, two, three = scenario.cluster.get("sidecarset", "defaults")["spec"]["containers"]
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


def test_what_is_refused_is_a_422_that_names_the_field(scenario, running):
    for body, field in REFUSED:
        status = refused(scenario, body)
        assert field in [cause.field for cause in status.details.causes], status


def test_no_selector_no_containers_and_no_spec_are_422s_too(scenario, running):
    for name in ("selector", "containers"):
        body = sidecarset("bad")
        del body["spec"][name]
        assert name in refused(scenario, body).message
    body = sidecarset("bad")
    del body["spec"]
    assert "spec" in refused(scenario, body).message


def test_a_name_that_another_set_has_for_the_same_pods_is_refused(scenario, running):
    scenario.make(sidecarset("first", container("log")))
    status = refused(scenario, sidecarset("second", container("log"), labels={"tier": "web"}))
    assert [c.field for c in status.details.causes] == ["spec.containers[0].name"]
    assert "SidecarSet first" in status.message
    scenario.make(sidecarset("third", container("log"), labels={"app": "apache"}))


def test_three_overlapping_sets_are_injected_in_a_stable_order(scenario, running):
    scenario.make(
        sidecarset("c", container("c1"), labels={"tier": "web"}),
        sidecarset("a", container("a2"), container("a1")),
        sidecarset("b", container("b1")),
    )
    (both, one) = scenario.create(pod("both", {"app": "nginx", "tier": "web"}), pod("one"))
    assert names(both) == ["main", "a2", "a1", "b1", "c1"]
    assert names(one) == ["main", "a2", "a1", "b1"]
    assert sorted(recorded(both)) == ["a", "b", "c"]


def test_injecting_twice_adds_nothing(scenario, running):
    scenario.make(sidecarset("once"))
    (made,) = scenario.create(pod("first"))
    again = {**made, "metadata": {**pod("second")["metadata"], "annotations": made["metadata"]["annotations"]}}
    again["spec"] = {k: v for k, v in made["spec"].items() if k in ("containers", "terminationGracePeriodSeconds")}
    for each in again["spec"]["containers"]:
        each.pop("volumeMounts", None)
    (second,) = scenario.create(again)
    assert names(second) == names(made)
    assert recorded(second) == recorded(made)


def test_pods_that_opt_out_or_match_nothing_stay_as_they_are(scenario, running):
    scenario.make(sidecarset("picky"))
    made = scenario.create(
        pod("out", annotations={"sidecar.kruise.io/inject": "false"}), pod("other", {"app": "apache"}), pod("bare", {})
    )
    for each in made:
        assert names(each) == ["main"]
        assert ANNOTATION not in each["metadata"].get("annotations", {})
    scenario.counts("picky", 1, 0, 1)


def test_pods_of_kube_system_stay_as_they_are(scenario, operator):
    operator("sidecarset:operator", namespaces=[])
    scenario.make(sidecarset("everywhere", labels={"only": "here"}))
    for namespace in ("kube-system", "kube-public"):
        body = pod("theirs", {"only": "here"})
        body["spec"]["serviceAccountName"] = "default"
        eventually(
            lambda namespace=namespace: scenario.cluster.get("serviceaccount", "default", namespace=namespace),
            within=120,
            what="a service account",
        )
        (made,) = scenario.create(body, namespace=namespace)
        scenario.cluster.delete("pod", "theirs", namespace=namespace)
        assert names(made) == ["main"]


def test_a_pod_that_changes_its_labels_is_counted_where_it_is(scenario, running):
    scenario.make(sidecarset("blue", labels={"c": "blue"}), sidecarset("red", container("r"), labels={"c": "red"}))
    scenario.create(pod("one", {"c": "blue"}))
    scenario.counts("blue", 1, 1, 1)
    scenario.cluster.patch("pod", "one", {"metadata": {"labels": {"c": "red"}}})
    scenario.counts("blue", 0, 0, 0)
    scenario.counts("red", 1, 0, 1)
    assert scenario.settled("red")["waitingPods"] == 1


def test_finished_pods_do_not_count(scenario, running):
    scenario.make(sidecarset("jobs"))
    body = pod("done")
    body["spec"]["restartPolicy"] = "Never"
    body["metadata"]["annotations"] = {"simulate.steersman.dev/exit-after": "10ms"}
    scenario.create(body, pod("stays"))
    eventually(
        lambda: scenario.pod("done")["status"].get("phase") in ("Succeeded", "Failed"), within=120, what="it ends"
    )
    scenario.counts("jobs", 1, 1, 1)


def test_a_new_image_reaches_running_pods_in_place(scenario, running):
    scenario.make(sidecarset("rolling", container("s", "busybox:1.35")))
    scenario.create(*(pod(f"p{n}") for n in range(4)))
    scenario.counts("rolling", 4, 4, 4)
    before = {p["metadata"]["uid"] for p in scenario.pods()}
    scenario.change("rolling", containers=[container("s", "busybox:1.36")])
    scenario.counts("rolling", 4, 4, 4)
    pods = scenario.pods()
    assert {p["metadata"]["uid"] for p in pods} == before
    assert {images(p)["s"] for p in pods} == {"busybox:1.36"}
    assert {recorded(p)["rolling"]["generation"] for p in pods} == {2}


def test_other_changes_wait_for_new_pods_and_say_so(scenario, running):
    scenario.make(sidecarset("slow", container("s", command=["sleep", "1d"])))
    scenario.create(pod("old"))
    scenario.counts("slow", 1, 1, 1)
    scenario.change("slow", containers=[container("s", command=["sleep", "2d"])])
    scenario.counts("slow", 1, 0, 1)
    status = scenario.settled("slow")
    assert status["waitingPods"] == 1
    assert status["conditions"][0]["reason"] == "WaitingForRecreation"
    scenario.cluster.delete("pod", "old")
    scenario.create(pod("new"))
    scenario.counts("slow", 1, 1, 1)
    assert scenario.settled("slow")["conditions"][0]["status"] == "True"


def test_partition_keeps_pods_and_not_update_all_of_them(scenario, running):
    scenario.make(sidecarset("parts", container("s", "busybox:1.35"), updateStrategy={"partition": 3}))
    scenario.create(*(pod(f"p{n}") for n in range(5)))
    scenario.counts("parts", 5, 5, 5)
    scenario.change("parts", containers=[container("s", "busybox:1.36")])
    scenario.counts("parts", 5, 2, 5)
    running.wait_idle()
    assert sorted(images(p)["s"] for p in scenario.pods()) == ["busybox:1.35"] * 3 + ["busybox:1.36"] * 2
    scenario.change("parts", updateStrategy={"partition": "20%"})
    scenario.counts("parts", 5, 4, 5)
    scenario.change("parts", updateStrategy={"partition": 0, "type": "NotUpdate"})
    running.wait_idle()
    assert sum(images(p)["s"] == "busybox:1.35" for p in scenario.pods()) == 1
    scenario.change("parts", updateStrategy={"type": "RollingUpdate"})
    scenario.counts("parts", 5, 5, 5)


def test_a_set_that_is_deleted_is_injected_no_more(scenario, running):
    scenario.make(sidecarset("gone"))
    scenario.cluster.delete("sidecarset", "gone")
    running.wait_idle()

    def injected():
        (made,) = scenario.create(pod("probe"))
        scenario.cluster.delete("pod", "probe")
        eventually(lambda: scenario.pod("probe") is None, within=60, what="the Pod is gone")
        return names(made)

    eventually(lambda: injected() == ["main"], within=60, what="no injection")


def test_a_pod_of_a_dry_run_leaves_nothing(scenario, running):
    scenario.make(sidecarset("dry"))
    made = scenario.cluster.call("POST", f"/api/v1/namespaces/{scenario.cluster.namespace}/pods?dryRun=All", pod("dry"))
    assert names(made) == ["main", "sidecar1"]
    assert scenario.pods() == []


def test_the_columns_are_those_of_the_design(scenario):
    with pytest.raises(CallError):
        scenario.cluster.call("GET", f"{SETS}/none")
    crd = scenario.cluster.get("crd", "sidecarsets.apps.kruise.io")
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


def test_an_update_that_a_policy_denies_is_reported_and_tried_again(scenario, running, monkeypatch):
    """A policy denies with 422, as a Pod that has changed since does; the one is reported, the other is not."""
    monkeypatch.setattr("sidecarset.controllers.sidecarset_controller.REFUSED_RETRY_SECONDS", 0.3)
    scenario.make(sidecarset("denied", container("s", "busybox:1.35")))
    scenario.create(pod("p0"), pod("p1"))
    scenario.counts("denied", 2, 2, 2)
    policy, binding = frozen(scenario.cluster.namespace)
    scenario.cluster.apply(policy, binding)

    def is_frozen():
        try:
            scenario.cluster.patch("pod", "p0", {"metadata": {"annotations": {"probe": "x"}}})
        except Exception as problem:
            return "frozen until Monday" in str(problem)
        return False

    eventually(is_frozen, within=120, what="the policy is in force")
    scenario.change("denied", containers=[container("s", "busybox:1.36")])
    status = scenario.settled("denied", lambda s: s["conditions"][0]["reason"] == "UpdateRefused")
    assert status["conditions"][0]["status"] == "False"
    assert "frozen until Monday" in status["conditions"][0]["message"]
    assert (status["matchedPods"], status["updatedPods"]) == (2, 0)
    events = eventually(
        lambda: [
            e
            for e in scenario.cluster.list("events.events.k8s.io", namespace="default")
            if e["reason"] == "UpdateRefused"
        ],
        within=60,
        what="an Event",
    )
    assert "frozen until Monday" in events[0]["note"]
    assert [r.error for r in running.reconciles if r.error] == []
    for each in (binding, policy):
        scenario.cluster.delete(each["kind"].lower(), each["metadata"]["name"])
    scenario.counts("denied", 2, 2, 2)


def test_an_update_that_a_role_forbids_is_reported(scenario, running, faults):
    scenario.make(sidecarset("denied", container("s", "busybox:1.35")))
    scenario.create(pod("p0"))
    scenario.counts("denied", 1, 1, 1)
    faults.add(Fault("answer", Match(verb="patch", resource="pods", user=running.user), 403, "Forbidden", "no role"))
    scenario.change("denied", containers=[container("s", "busybox:1.36")])
    status = scenario.settled("denied", lambda s: s["conditions"][0]["reason"] == "UpdateRefused")
    assert "no role" in status["conditions"][0]["message"]
    assert [r.error for r in running.reconciles if r.error] == []


def test_each_injection_and_each_update_is_one_line_of_the_log_that_says_why(scenario, running):
    scenario.make(sidecarset("told", container("s", "busybox:1.35")))
    scenario.create(pod("p0"))
    scenario.counts("told", 1, 1, 1)
    scenario.cluster.call("POST", f"/api/v1/namespaces/{scenario.cluster.namespace}/pods?dryRun=All", pod("dry"))
    scenario.change("told", containers=[container("s", "busybox:1.36")])
    scenario.counts("told", 1, 1, 1)
    injected = [line for line in running.log if line["event"] == "sidecars_injected"]
    assert [(line["pod"], line["containers"], line["level"]) for line in injected] == [("p0", ["s"], "info")]
    (updated,) = [line for line in running.log if line["event"] == "pod_updated"]
    assert (updated["pod"], updated["reason"]) == (f"{scenario.cluster.namespace}/p0", "images_changed")
    assert (updated["sidecarset"], updated["generation"], updated["images"]) == ("told", 2, {"s": "busybox:1.36"})
