"""Objects survive protobuf both ways, and other bytes are refused; the real API server confirms the table."""

import json
import re
import urllib.request
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.testing import Cluster
from steersman.testing.cluster_http import client_context
from steersman_cluster.protobuf import MEDIA_TYPE, NotProtobufError, decode, encode, frame, supports
from steersman_cluster.protobuf.duration import nanoseconds, text

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "web", "labels": {"app": "web"}, "creationTimestamp": "2026-11-21T05:00:00Z"},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "config", "configMap": {"name": "c", "defaultMode": 420}}],
        "containers": [
            {
                "name": "a",
                "image": "i",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
                "resources": {"limits": {"cpu": "500m"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 10},
                "readinessProbe": {"tcpSocket": {"port": 80}},
            }
        ],
    },
}
CRD = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"name": "widgets.proto.example.com"},
    "spec": {
        "group": "proto.example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "additionalProperties": {"type": "integer", "minimum": 0.5, "default": 3},
                            },
                            "data": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "list": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                        },
                    }
                },
            }
        ],
    },
}
SECRET = {
    "kind": "Secret",
    "apiVersion": "v1",
    "metadata": {"name": "s"},
    "data": {"a": "AAEC", "empty": ""},
    "type": "Opaque",
}
REVIEW = {
    "kind": "SubjectAccessReview",
    "apiVersion": "authorization.k8s.io/v1",
    "spec": {"user": "u", "groups": ["g"], "extra": {"scopes": ["a", "b"]}, "nonResourceAttributes": {"path": "/x"}},
}
LEASE = {
    "kind": "Lease",
    "apiVersion": "coordination.k8s.io/v1",
    "metadata": {"name": "l"},
    "spec": {"renewTime": "2026-11-21T05:00:00.123456Z", "leaseTransitions": 0, "holderIdentity": ""},
}


@pytest.mark.parametrize("obj", [POD, CRD, SECRET, LEASE], ids=lambda obj: obj["kind"])
def test_an_object_comes_back_as_it_was(obj):
    found = decode(encode(obj))
    assert without_empties(found) == without_empties(obj)


def without_empties(value):
    """Go writes structs that are no pointers even when nothing is in them."""
    if isinstance(value, dict):
        return {k: w for k, v in value.items() if (w := without_empties(v)) not in ({}, [])}
    return [without_empties(v) for v in value] if isinstance(value, list) else value


def test_lists_of_extra_values_are_wrapped():
    assert decode(encode(REVIEW))["spec"]["extra"] == {"scopes": ["a", "b"]}


def test_a_watch_event_says_its_length_first():
    framed = frame("ADDED", SECRET)
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    assert b"ADDED" in framed


def test_custom_resources_have_no_protobuf():
    assert not supports("example.com/v1", "Widget")
    with pytest.raises(NotProtobufError, match="Widget"):
        encode({"apiVersion": "example.com/v1", "kind": "Widget"})


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_bytes_that_are_no_protobuf_are_refused_and_nothing_else_happens(data):
    for body in (data, b"k8s\x00" + data, encode(POD)[:-1] + data):
        with suppress(NotProtobufError):
            decode(body)


@given(st.integers(-(2**63), 2**63 - 1))
def test_durations_read_back(length):
    assert nanoseconds(text(length)) == length


@pytest.mark.parametrize(
    ("length", "shown"), [(0, "0s"), (3600 * 10**9, "1h0m0s"), (90 * 10**9, "1m30s"), (1500000, "1.5ms")]
)
def test_durations_read_as_go_writes_them(length, shown):
    assert text(length) == shown


def ask(cluster, method, path, body=None, *, kind=MEDIA_TYPE, accept=MEDIA_TYPE):
    directory = cluster.directory
    context = client_context(cluster.ca_pem, str(directory / "pki/admin.crt"), str(directory / "pki/admin.key"))
    headers = {"Accept": accept, "Content-Type": kind}
    request = urllib.request.Request(cluster.server + path, body, headers, method=method)
    with urllib.request.urlopen(request, context=context) as answer:
        return answer.read()


LISTS = (
    "/api/v1/namespaces", "/api/v1/services", "/api/v1/nodes", "/api/v1/serviceaccounts", "/api/v1/configmaps",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/coordination.k8s.io/v1/leases",
    "/apis/discovery.k8s.io/v1/endpointslices", "/apis/networking.k8s.io/v1/servicecidrs",
    "/apis/apiregistration.k8s.io/v1/apiservices",
)  # fmt: skip


@pytest.mark.realcluster
@pytest.mark.parametrize("path", LISTS)
def test_the_real_server_says_the_same_in_both_encodings(control_plane: Cluster, path: str):
    plain = json.loads(ask(control_plane, "GET", path, accept="application/json"))
    found = decode(ask(control_plane, "GET", path))
    version = plain["metadata"].pop("resourceVersion")
    if found["metadata"].pop("resourceVersion") == version:
        assert without_empties(found) == without_empties(plain)


@pytest.mark.realcluster
@pytest.mark.parametrize(
    ("path", "obj"),
    [("/api/v1/namespaces/{ns}/secrets", SECRET), ("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", LEASE),
     ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD), ("/api/v1/namespaces/{ns}/pods", POD)],
    ids=lambda value: value if isinstance(value, str) else value["kind"],
)  # fmt: skip
def test_the_real_server_understands_what_we_write(control_plane: Cluster, namespace: str, path: str, obj: dict):
    path = path.replace("{ns}", namespace) + "?dryRun=All"
    ours = json.loads(ask(control_plane, "POST", path, encode(obj), accept="application/json"))
    theirs = json.loads(
        ask(control_plane, "POST", path, json.dumps(obj).encode(), kind="application/json", accept="application/json")
    )
    for answer in (ours, theirs):
        for name in ("uid", "creationTimestamp", "managedFields", "resourceVersion"):
            answer["metadata"].pop(name, None)
        answer.pop("status", None)
    named = re.compile(r"kube-api-access-\w{5}")
    assert named.sub("x", json.dumps(ours)) == named.sub("x", json.dumps(theirs))
