"""The effects of the built-in plug-ins on Pods, claims and namespaced writes."""

import pytest

from steersman_cluster.admission import Admission
from steersman_cluster.errors import APIError

from .conftest import Store


def refusal(admission: Admission, write) -> APIError:
    try:
        admission.mutate_now(write)
        admission.validate_now(write)
    except APIError as error:
        return error
    raise AssertionError("the write was let through")


@pytest.fixture
def account(store: Store, admission: Admission) -> dict:
    made = {"metadata": {"name": "default", "namespace": "default"}}
    store.put("", "serviceaccounts", made)
    return made


def test_nothing_is_created_in_a_namespace_that_is_not_there(store: Store, admission: Admission):
    error = refusal(admission, store.write({"metadata": {"name": "c"}}, namespace="nope"))
    assert (error.code, error.message) == (404, 'namespaces "nope" not found')


def test_nothing_is_created_in_a_namespace_that_goes_away(store: Store, admission: Admission):
    admission.mutate_now(store.write({"metadata": {"name": "c"}}))
    store.put("", "namespaces", {"metadata": {"name": "default"}, "status": {"phase": "Terminating"}})
    error = refusal(admission, store.write({"metadata": {"name": "c"}}))
    assert error.status["message"] == (
        'configmaps "c" is forbidden: unable to create new content in namespace default because it is being terminated'
    )
    assert error.status["details"] == {
        "name": "c",
        "kind": "configmaps",
        "causes": [
            {
                "reason": "NamespaceTerminating",
                "message": "namespace default is being terminated",
                "field": "metadata.namespace",
            }
        ],
    }
    old = {"metadata": {"name": "c"}}
    admission.mutate_now(store.write(None, operation="DELETE", old=old))
    admission.mutate_now(store.write(dict(old), operation="UPDATE", old=old))


def test_the_default_namespace_stays(store: Store, admission: Admission):
    old = {"metadata": {"name": "default"}}
    write = store.write(None, operation="DELETE", old=old, kind="Namespace", resource="namespaces", namespace="")
    assert refusal(admission, write).message == 'namespaces "default" is forbidden: this namespace may not be deleted'


def test_a_pod_gets_account_token_priority_and_tolerations(store: Store, admission: Admission, account: dict):
    write = store.pod()
    admission.mutate_now(write)
    admission.validate_now(write)
    assert write.obj is not None
    assert write.obj["spec"] == {
        "containers": [
            {
                "name": "a",
                "image": "i",
                "volumeMounts": [
                    {
                        "name": "kube-api-access-xxxxx",
                        "readOnly": True,
                        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    }
                ],
            }
        ],
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "volumes": [
            {
                "name": "kube-api-access-xxxxx",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {
                                        "path": "namespace",
                                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                                    }
                                ]
                            }
                        },
                    ],
                    "defaultMode": 420,
                },
            }
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
        ],
    }


@pytest.mark.parametrize(
    ("on_account", "on_pod", "mounted"), [(False, None, False), (False, True, True), (None, False, False)]
)
def test_a_token_is_not_mounted_where_it_is_not_wanted(
    store: Store, admission: Admission, account: dict, on_account: bool | None, on_pod: bool | None, mounted: bool
):
    if on_account is not None:
        account["automountServiceAccountToken"] = on_account
    write = store.pod({} if on_pod is None else {"automountServiceAccountToken": on_pod})
    admission.mutate_now(write)
    assert write.obj is not None
    assert ("volumes" in write.obj["spec"]) is mounted


def test_a_pod_needs_its_account(store: Store, admission: Admission):
    assert refusal(admission, store.pod({"serviceAccountName": "op"})).message == (
        'pods "p" is forbidden: error looking up service account default/op: serviceaccount "op" not found'
    )


def test_pull_secrets_come_from_the_account(store: Store, admission: Admission, account: dict):
    account["imagePullSecrets"] = [{"name": "registry"}]
    write = store.pod()
    admission.mutate_now(write)
    assert write.obj is not None
    assert write.obj["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_priority_comes_from_the_class(store: Store, admission: Admission, account: dict):
    group = "scheduling.k8s.io"
    store.put(group, "priorityclasses", {"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"})
    write = store.pod({"priorityClassName": "high"})
    admission.mutate_now(write)
    assert write.obj is not None
    assert (write.obj["spec"]["priority"], write.obj["spec"]["preemptionPolicy"]) == (10, "Never")
    error = refusal(admission, store.pod({"priorityClassName": "nope"}))
    assert error.message == 'pods "p" is forbidden: no PriorityClass with name nope was found'
    assert refusal(admission, store.pod({"priority": 5})).message == (
        'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission '
        "controller computed 0 from the given PriorityClass name"
    )
    store.put(group, "priorityclasses", {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
    write = store.pod()
    admission.mutate_now(write)
    assert write.obj is not None
    assert (write.obj["spec"]["priority"], write.obj["spec"]["priorityClassName"]) == (3, "usual")


def test_a_claim_gets_the_newest_default_class_and_its_finalizer(store: Store, admission: Admission):
    for name, created in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-01-02T00:00:00Z")):
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        metadata = {"name": name, "creationTimestamp": created, "annotations": annotations}
        store.put("storage.k8s.io", "storageclasses", {"metadata": metadata})
    claim = {"metadata": {"name": "c"}, "spec": {}}
    write = store.write(claim, kind="PersistentVolumeClaim", resource="persistentvolumeclaims")
    admission.mutate_now(write)
    assert claim["spec"] == {"storageClassName": "new"}
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    static = {"metadata": {"name": "c"}, "spec": {"storageClassName": ""}}
    admission.mutate_now(store.write(static, kind="PersistentVolumeClaim", resource="persistentvolumeclaims"))
    assert static["spec"] == {"storageClassName": ""}


def limit_range(store: Store, **limit) -> None:
    store.put("", "limitranges", {"metadata": {"name": "limits", "namespace": "default"}, "spec": {"limits": [limit]}})


def test_containers_get_the_namespace_defaults(store: Store, admission: Admission, account: dict):
    limit_range(store, type="Container", default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "100m"})
    write = store.pod({"containers": [{"name": "a", "image": "i", "resources": {"limits": {"cpu": "2"}}}]})
    admission.mutate_now(write)
    assert write.obj is not None
    assert write.obj["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "100m"},
    }
    assert write.obj["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container a; "
        "memory limit for container a"
    }


@pytest.mark.parametrize(
    ("limit", "resources", "expected"),
    [
        (
            {"type": "Container", "max": {"cpu": "1"}},
            {"limits": {"cpu": "1500m"}},
            "maximum cpu usage per Container is 1, but limit is 1500m",
        ),
        (
            {"type": "Container", "max": {"cpu": "1"}},
            {},
            "maximum cpu usage per Container is 1.  No limit is specified",
        ),
        (
            {"type": "Pod", "min": {"memory": "1Gi"}},
            {"requests": {"memory": "512Mi"}},
            "minimum memory usage per Pod is 1Gi, but request is 512Mi",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
    ],
)
def test_a_pod_beyond_the_limits_is_refused(
    store: Store, admission: Admission, account: dict, limit: dict, resources: dict, expected: str
):
    limit_range(store, **limit)
    write = store.pod({"containers": [{"name": "a", "image": "i", "resources": resources}]})
    assert refusal(admission, write).message == f'pods "p" is forbidden: {expected}'


def test_a_new_node_is_tainted(store: Store, admission: Admission):
    node: dict = {"metadata": {"name": "n"}}
    admission.mutate_now(store.write(node, kind="Node", resource="nodes", namespace=""))
    assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert not Admission(store, taint_nodes=False)._mutators["CREATE", "", "nodes"]
