import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from steersman.models import Quantity, decode, encode, info_of
from steersman.models.codegen import CodegenError, files_from_crds, modules_from_openapi, render_module
from steersman.models.codegen.naming import class_name, python_name, wire_by_rename
from steersman.models.markers import ListMap, Set, markers_of

NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY = rf"^(\+|-)?{NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{NUMBER}))?$"
CRD = yaml.safe_load(
    r"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: brokers.mq.example.com}
spec:
  group: mq.example.com
  scope: Cluster
  names: {kind: Broker, plural: brokers, singular: broker, shortNames: [br], categories: [all, mq]}
  versions:
    - name: v1beta2
      served: true
      storage: true
      subresources:
        status: {}
        scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size, labelSelectorPath: .status.selector}
      schema:
        openAPIV3Schema:
          description: A message broker. It "passes" C:\messages on.
          type: object
          required: [spec]
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec:
              type: object
              required: [size, tls]
              properties:
                size: {type: integer, minimum: 1, description: How many.}
                mode: {type: string, enum: [Fast, Safe]}
                clusterIPs: {type: array, items: {type: string}, x-kubernetes-list-type: set}
                from: {type: string}
                datetime: {type: string, format: date-time}
                port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
                memory:
                  x-kubernetes-int-or-string: true
                  anyOf: [{type: integer}, {type: string}]
                  pattern: QUANTITY
                tls:
                  type: object
                  required: [secret]
                  properties: {secret: {type: string}}
                queues:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [name]
                  items:
                    type: object
                    required: [name]
                    properties:
                      name: {type: string}
                      limits: {type: object, additionalProperties: {type: integer}}
                template: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status:
              type: object
              required: [size]
              properties:
                size: {type: integer}
                selector: {type: string}
""".replace("QUANTITY", QUANTITY)
)


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    package = tmp_path / "acme_models"
    package.mkdir()
    for name, content in files_from_crds([CRD], package="acme_models").items():
        (package / name).write_text(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("acme_models").Broker
    for name in [m for m in sys.modules if m.startswith("acme_models")]:
        del sys.modules[name]


def test_the_class_of_a_crd_has_its_names_and_sub_resources(broker: Any):
    info = info_of(broker)

    assert (info.api_version, info.kind, info.plural) == ("mq.example.com/v1beta2", "Broker", "brokers")
    assert (info.namespaced, info.short_names, info.categories) == (False, ("br",), ("all", "mq"))
    assert info.has_status
    assert info.scale is not None
    assert (info.scale.spec, info.scale.status, info.scale.selector) == ("spec.size", "status.size", "status.selector")


def test_an_object_of_a_crd_reads_and_writes(broker: Any):
    data = (
        b'{"apiVersion":"mq.example.com/v1beta2","kind":"Broker","metadata":{"name":"b"},"spec":{"size":1,'
        b'"clusterIPs":["::1"],"from":"a","datetime":"2026-01-01T00:00:00Z","port":"mqtt","memory":"1Gi",'
        b'"tls":{"secret":"s"},"queues":[{"name":"q","limits":{"depth":5}}],"template":{"any":[1]}}}'
    )

    obj = decode(broker, data)

    assert encode(obj) == data
    assert obj.spec.cluster_ips == ("::1",)
    assert obj.spec.from_ == "a"
    assert obj.spec.memory == Quantity("1Gi")
    assert obj.spec.queues[0].limits["depth"] == 5
    assert obj.status.size == 0, "a status is there before the server has written one"
    assert type(obj.spec.queues[0]).__name__ == "BrokerSpecQueues"


def test_the_markers_of_a_crd_are_kept(broker: Any):
    spec = type(decode(broker, b'{"spec":{"size":1,"tls":{"secret":"s"}}}').spec)

    assert markers_of(spec, "queues") == (ListMap("name"),)
    assert markers_of(spec, "cluster_ips") == (Set,)


def test_descriptions_and_allowed_values_are_kept_in_the_source():
    source = files_from_crds([CRD], package="acme")["mq_v1beta2.py"]

    assert source.startswith("# Generated by `steersman models`")
    assert '"""A message broker."""' in source
    assert 'It "passes" C:\\\\messages on.' in source
    assert '"""How many."""' in source
    assert 'One of "Fast", "Safe".' in source


@pytest.mark.parametrize(
    ("crd", "message"),
    [
        ({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition"}, "not an apiextensions"),
        (
            {**CRD, "spec": {**CRD["spec"], "versions": [{"name": "v1"}]}},
            r"brokers.mq.example.com: version v1 has no schema",
        ),
    ],
)
def test_what_cannot_be_generated_is_named(crd: Any, message: str):
    with pytest.raises(CodegenError, match=message):
        files_from_crds([crd], package="acme")


def test_a_reference_to_nowhere_is_named():
    document = {
        "components": {
            "schemas": {
                "com.acme.v1.A": {
                    "type": "object",
                    "properties": {"b": {"$ref": "#/components/schemas/com.acme.v1.B"}},
                }
            }
        }
    }

    with pytest.raises(CodegenError, match=r"A: refers to 'com.acme.v1.B'"):
        modules_from_openapi([document], package="acme")


def test_a_third_party_document_takes_built_in_types_from_the_library():
    pod_spec = "io.k8s.api.core.v1.PodSpec"
    document = {
        "components": {
            "schemas": {
                "com.acme.v1.Runner": {
                    "type": "object",
                    "properties": {"pod": {"$ref": f"#/components/schemas/{pod_spec}"}},
                },
                pod_spec: {"type": "object", "properties": {"hostname": {"type": "string"}}},
            }
        }
    }

    (module,) = modules_from_openapi([document], package="acme")

    assert module.path == "acme.acme_v1"
    source = render_module(module)
    assert "from steersman.k8s.core_v1 import PodSpec" in source
    assert "pod: PodSpec | None = None" in source


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        ("clusterIPs", "cluster_ips"),
        ("podIP", "pod_ip"),
        ("hostIPC", "host_ipc"),
        ("externalURL", "external_url"),
        ("serverAddressByClientCIDRs", "server_address_by_client_cidrs"),
        ("targetWWNs", "target_wwns"),
        ("x-kubernetes-list-type", "x_kubernetes_list_type"),
        ("$ref", "ref"),
        ("continue", "continue_"),
        ("v1alpha1", "v1alpha1"),
        ("2fast", "n2fast"),
        ("str", "str_"),
        ("type", "type"),
        ("---", "value"),
    ],
)
def test_wire_names_become_python_names(wire: str, name: str):
    assert python_name(wire) == name
    assert name.isidentifier()


def test_names_that_renaming_cannot_reach_are_told_apart():
    assert wire_by_rename("ready_replicas") == "readyReplicas"
    assert wire_by_rename(python_name("clusterIP")) != "clusterIP"
    assert class_name("Exception") == "ExceptionKind"
    assert class_name("HelloApp", "spec", "pod-template") == "HelloAppSpecPodTemplate"
