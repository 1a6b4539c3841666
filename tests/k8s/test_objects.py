"""Objects as a real API server writes them."""

import json
from datetime import UTC, datetime

import pytest

from steersman.k8s import (
    ConfigMap,
    Container,
    CustomResourceDefinition,
    Deployment,
    DeploymentSpec,
    Event,
    EventsV1Event,
    HorizontalPodAutoscaler,
    JSONSchemaProps,
    Lease,
    Pod,
    PodTemplateSpec,
    Role,
    Secret,
    Service,
)
from steersman.k8s.apps_v1 import StatefulSet
from steersman.k8s.core_v1 import PodSpec, ServiceSpec
from steersman.models import DecodeError, LabelSelector, MicroTime, ObjectMeta, Quantity, decode, encode
from steersman.models.markers import Atomic, ListMap, PatchStrategy, markers_of

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-6b7f675c5b-abcde",
        "generateName": "web-6b7f675c5b-",
        "namespace": "default",
        "uid": "0b6c3c52-6d1a-4f37-8f1b-3a3f0c0f7a10",
        "resourceVersion": "1234",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "web", "pod-template-hash": "6b7f675c5b"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web-6b7f675c5b",
                "uid": "1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}],
    },
    "spec": {
        "volumes": [
            {
                "name": "kube-api-access-x",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {"path": "ns", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                                ]
                            }
                        },
                    ],
                    "defaultMode": 420,
                },
            }
        ],
        "containers": [
            {
                "name": "web",
                "image": "nginx:1.29",
                "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": 0.25}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
                "readinessProbe": {"tcpSocket": {"port": 80}},
                "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "imagePullPolicy": "IfNotPresent",
                "someFieldOfTomorrow": {"a": 1},
            }
        ],
        "restartPolicy": "Always",
        "enableServiceLinks": True,
        "hostIPC": False,
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-02T03:04:09Z"}
        ],
        "podIP": "10.0.0.7",
        "podIPs": [{"ip": "10.0.0.7"}],
        "hostIP": "192.168.0.1",
        "qosClass": "Burstable",
        "containerStatuses": [
            {
                "name": "web",
                "ready": True,
                "restartCount": 0,
                "image": "nginx:1.29",
                "imageID": "sha256:1",
                "state": {"running": {"startedAt": "2026-01-02T03:04:08Z"}},
                "lastState": {},
            }
        ],
    },
}


def test_a_running_pod_is_read():
    pod = decode(Pod, json.dumps(POD).encode())

    (container,) = pod.spec.containers
    (status,) = pod.status.container_statuses
    assert pod.status.pod_ip == "10.0.0.7"
    assert pod.status.pod_ips[0].ip == "10.0.0.7"
    assert container.resources.limits["memory"] == Quantity("128Mi")
    assert str(container.resources.requests["cpu"]) == "250m"
    assert container.liveness_probe is not None
    assert container.liveness_probe.http_get is not None
    assert container.liveness_probe.http_get.port == "http"
    assert container.readiness_probe is not None
    assert container.readiness_probe.tcp_socket is not None
    assert container.readiness_probe.tcp_socket.port == 80
    assert status.state.running is not None
    assert status.state.running.started_at == datetime(2026, 1, 2, 3, 4, 8, tzinfo=UTC)
    assert pod.spec.host_ipc is False
    assert pod.metadata.owner_references[0].controller


def test_a_pod_writes_what_it_knows_and_nothing_else():
    written = json.loads(encode(decode(Pod, json.dumps(POD).encode())))

    expected = json.loads(json.dumps(POD))
    del expected["metadata"]["managedFields"]
    del expected["spec"]["containers"][0]["someFieldOfTomorrow"]
    del expected["status"]["conditions"][0]["lastProbeTime"]
    expected["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "250m"
    assert written == expected


def test_a_deployment_is_built_with_little_ceremony():
    labels = {"app": "web"}
    deployment = Deployment(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=DeploymentSpec(
            replicas=0,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels),
                spec=PodSpec(containers=(Container(name="web", image="nginx"),)),
            ),
        ),
    )

    assert json.loads(encode(deployment)) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    }
    assert deployment.status.ready_replicas is None


def test_a_missing_required_field_is_named():
    with pytest.raises(DecodeError) as caught:
        decode(Deployment, b'{"spec":{"selector":{},"template":{"spec":{"containers":[{"image":"x"}]}}}}')

    assert caught.value.path == "$.spec.template.spec.containers[0]"
    assert "`name`" in caught.value.message


def test_lists_that_go_writes_as_null_are_empty():
    assert decode(Role, b'{"metadata":{"name":"none"},"rules":null}').rules == ()
    assert decode(ConfigMap, b'{"data":null}').data == {}


def test_an_event_without_an_event_time_is_read():
    data = b'{"metadata":{"name":"e"},"eventTime":null,"regarding":{},"deprecatedSource":{}}'

    assert decode(EventsV1Event, data).event_time is None
    assert decode(Event, b'{"metadata":{},"involvedObject":{},"eventTime":null,"count":3}').count == 3


def test_a_lease_writes_micro_times():
    lease = decode(Lease, b'{"metadata":{"name":"l"},"spec":{"renewTime":"2026-01-01T00:00:00.000000Z"}}')

    assert lease.spec.renew_time == MicroTime(2026, 1, 1, tzinfo=UTC)
    assert b'"renewTime":"2026-01-01T00:00:00.000000Z"' in encode(lease)


def test_a_secret_holds_bytes_and_never_shows_them():
    secret = decode(
        Secret, b'{"metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="},"stringData":{"a":"hunter2"}}'
    )

    assert secret.data["password"] == b"hunter2"
    assert "hunter2" not in repr(secret)
    assert "metadata=ObjectMeta(name='s')" in repr(secret)
    assert b'"password":"aHVudGVyMg=="' in encode(secret)


def test_a_status_that_only_servers_write_can_be_read_without_questions():
    from steersman.k8s.autoscaling_v2 import CrossVersionObjectReference, HorizontalPodAutoscalerSpec

    target = CrossVersionObjectReference(kind="Deployment", name="web")
    autoscaler = HorizontalPodAutoscaler(spec=HorizontalPodAutoscalerSpec(max_replicas=3, scale_target_ref=target))

    assert autoscaler.status.desired_replicas == 0
    assert b"status" not in encode(autoscaler)


def test_schemas_of_crds_are_recursive_and_keep_their_unions():
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "array",
                "items": {"type": "object", "additionalProperties": {"type": "string", "default": False}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "any": {"additionalProperties": True, "items": [{"type": "string"}], "default": 0, "enum": ["a", 1]},
        },
    }

    props = decode(JSONSchemaProps, json.dumps(schema).encode())

    assert json.loads(encode(props)) == schema
    assert isinstance(props.properties["spec"].items, JSONSchemaProps)
    crd = {
        "metadata": {"name": "a.b.c"},
        "spec": {
            "group": "b.c",
            "names": {"plural": "a", "kind": "A"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
    read = decode(CustomResourceDefinition, json.dumps(crd).encode())
    assert json.loads(encode(read))["spec"] == crd["spec"]
    assert read.status is not None


def test_merge_keys_are_there_for_whoever_merges():
    assert markers_of(PodSpec, "containers") == (ListMap("name"), PatchStrategy("merge", key="name"))
    assert markers_of(ServiceSpec, "ports") == (ListMap("port", "protocol"), PatchStrategy("merge", key="port"))
    assert markers_of(Container, "args") == (Atomic,)
    assert markers_of(Service, "status") == ()
    assert StatefulSet.__resource__.scale is not None
