"""The requests that `record` sends to a real API server and `test_recorded` to the strategies, in this order.

A `PUT` is the stored object, changed by a JSON merge patch, so that it contains the rest of the object.
"""

from typing import Any, NamedTuple

CORE, APPS = "/api/v1", "/apis"
NS = f"{CORE}/namespaces/t"


class Case(NamedTuple):
    method: str
    path: str
    body: dict[str, Any]


def _path(group: str, resource: str, namespaced: bool) -> str:
    base = f"/apis/{group}" if group != "v1" else CORE
    return f"{base}/namespaces/t/{resource}" if namespaced else f"{base}/{resource}"


def create(
    group: str, resource: str, name: str, namespaced: bool = True, /, metadata: Any = None, **fields: Any
) -> Case:
    return Case("POST", _path(group, resource, namespaced), {"metadata": {"name": name, **(metadata or {})}, **fields})


def change(group: str, resource: str, name: str, namespaced: bool = True, /, **fields: Any) -> Case:
    name, _, sub = name.partition("/")
    path = f"{_path(group, resource, namespaced)}/{name}" + (f"/{sub}" if sub else "")
    return Case("PUT", path, fields)


POD = {"kind": "Pod", "name": "p", "namespace": "t"}
BAD_OWNERS = [
    {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": True},
    {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "2", "controller": True, "blockOwnerDeletion": False},
    {"apiVersion": "a/b/c", "kind": "", "name": "", "uid": ""},
    {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "3"},
]
METADATA = [
    create("v1", "configmaps", "Bad_"),
    create("v1", "configmaps", "a" * 254),
    create(
        "v1",
        "configmaps",
        "m0",
        metadata={"labels": {"a b": "c", "x/": "y", "/x": "", "A.b/c": "-", "k" * 64: "v" * 64}},
    ),
    create("v1", "configmaps", "m0", metadata={"annotations": {"a/b/c": "d", "Upper/x": "y", "big": "y" * 262144}}),
    create("v1", "configmaps", "m0", metadata={"generation": -1, "ownerReferences": BAD_OWNERS}),
    create(
        "v1", "configmaps", "m0", metadata={"finalizers": ["orphan", "foregroundDeletion", "x y", "plain", "a.b/c"]}
    ),
    create("v1", "configmaps", "m1", metadata={"labels": {"a": ""}, "annotations": {"b": ""}, "finalizers": ["a.b/c"]}),
    change("v1", "configmaps", "m1", metadata={"labels": {"a": "-"}}),
    change("v1", "configmaps", "m1", metadata={"finalizers": ["plain"], "annotations": {"-": "x"}}),
    change("v1", "configmaps", "m1", metadata={"ownerReferences": BAD_OWNERS[2:]}),
    change("v1", "configmaps", "m1", metadata={"labels": {"a": "b"}}, data={"k": "v"}),
]
CONFIG = [
    create(
        "v1", "configmaps", "c0", data={"a b": "x", "..": "y", "ok": "1", "..c": ""}, binaryData={"ok": "YQ==", ".": ""}
    ),
    create("v1", "configmaps", "c0", data={"big": "x" * (1 << 20), "more": "y"}),
    create("v1", "configmaps", "c1", data={"k": "v"}, binaryData={"b": "YQ=="}, immutable=True),
    change("v1", "configmaps", "c1", data={"k": "w"}),
    change("v1", "configmaps", "c1", data={"k": None}, binaryData=None, immutable=False),
    change("v1", "configmaps", "c1", metadata={"labels": {"x": "y"}}),
    create("v1", "secrets", "s0", stringData={"a": "b", "é": "x"}, data={"a": "Yg==", "c": ""}),
    create("v1", "secrets", "s1", stringData={"a": "b"}, data={"a": "Zm9v", "c": ""}),
    create("v1", "secrets", "s2", type="kubernetes.io/tls"),
    create("v1", "secrets", "s2", type="kubernetes.io/tls", stringData={"tls.crt": "", "tls.key": "x"}),
    create("v1", "secrets", "s3", type="kubernetes.io/dockerconfigjson"),
    create("v1", "secrets", "s3", type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": "{"}),
    create("v1", "secrets", "s3", type="kubernetes.io/dockercfg", stringData={".dockercfg": "[1]"}),
    create("v1", "secrets", "s3", type="kubernetes.io/dockercfg", stringData={".dockercfg": "{}"}),
    create("v1", "secrets", "s4", type="kubernetes.io/basic-auth"),
    create("v1", "secrets", "s4", type="kubernetes.io/ssh-auth"),
    create("v1", "secrets", "s4", type="kubernetes.io/service-account-token"),
    create("v1", "secrets", "s4", type="example.com/any", immutable=True, stringData={"a": "b"}),
    change("v1", "secrets", "s4", stringData={"a": "c"}),
    change("v1", "secrets", "s4", immutable=None),
    change("v1", "secrets", "s1", type="x"),
    change("v1", "secrets", "s1", type=None, stringData={"z": "z"}),
    create("v1", "serviceaccounts", "sa1", secrets=[{"name": "s1"}], imagePullSecrets=[{"name": "x"}]),
    create("v1", "serviceaccounts", "Sa"),
    change("v1", "serviceaccounts", "sa1", automountServiceAccountToken=False),
    create("v1", "namespaces", "n.x", False),
    create("v1", "namespaces", "n1", False, spec={"finalizers": ["kubernetes", "foo", "a b"]}),
    create(
        "v1",
        "namespaces",
        "n2",
        False,
        metadata={"labels": {"kubernetes.io/metadata.name": "x"}},
        spec={"finalizers": ["a.b/c"]},
    ),
    change("v1", "namespaces", "n2", False, spec={"finalizers": None}, status={"phase": "Terminating"}),
    change("v1", "namespaces", "n2/status", False, status={"phase": "Terminating"}),
    change("v1", "namespaces", "n2/finalize", False, spec={"finalizers": ["foo", "kubernetes"]}),
    change("v1", "namespaces", "n2/finalize", False, spec={"finalizers": ["kubernetes"]}),
    change("v1", "namespaces", "n2", False, metadata={"labels": {"kubernetes.io/metadata.name": None, "a": "b"}}),
]
HTTP = {"port": 80}


def service(name: str, **spec: Any) -> Case:
    return create("v1", "services", name, spec=spec)


def reservice(name: str, **spec: Any) -> Case:
    return change("v1", "services", name, spec=spec)


SERVICES = [
    service("a"),
    service("a.b", ports=[HTTP]),
    service("0a", ports=[HTTP], clusterIP="10.0.0.5"),
    service("a1", ports=[HTTP]),
    service("a2", clusterIP="None"),
    service("a3", clusterIP="None", selector={"a": "b"}, ports=[{"name": "x", "port": 80, "targetPort": "http"}]),
    service(
        "a4",
        type="NodePort",
        ports=[{**HTTP, "nodePort": 30080, "name": "a"}, {**HTTP, "nodePort": 30081, "name": "b", "protocol": "UDP"}],
    ),
    service("a5", type="NodePort", ports=[{**HTTP, "nodePort": 30080}]),
    service("a5", type="NodePort", ports=[{**HTTP, "nodePort": 80}]),
    service(
        "a5",
        type="NodePort",
        ports=[
            {**HTTP, "nodePort": 30090, "name": "A"},
            {"port": 81, "nodePort": 30090, "name": "b", "protocol": "XX"},
        ],
    ),
    service("a5", clusterIP="1.2.3.4", ports=[HTTP]),
    service("a5", clusterIP="10.0.0.5", ports=[HTTP]),
    service("a5", clusterIP="x", ports=[HTTP]),
    service("a5", clusterIP="010.0.0.9", ports=[HTTP]),
    service("a5", clusterIP="::ffff:10.0.0.9", ports=[HTTP]),
    service("a5", clusterIP="2001:db8::1", ports=[HTTP]),
    service("a5", clusterIP="10.0.0.7", clusterIPs=["10.0.0.8"], ports=[HTTP]),
    service("a5", clusterIPs=["10.0.0.7"], ports=[HTTP]),
    service("a5", clusterIP="None", clusterIPs=["None", "10.0.0.8"], ports=[HTTP]),
    service("a5", ipFamilies=["IPv6"], ports=[HTTP]),
    service("a5", ipFamilies=["IPv4", "IPv4", "X"], ports=[HTTP]),
    service("a5", ipFamilyPolicy="RequireDualStack", ports=[HTTP]),
    service("a5", ipFamilyPolicy="Y", ports=[HTTP]),
    service("a6", ipFamilyPolicy="PreferDualStack", ports=[HTTP], clusterIP="10.0.0.6"),
    service(
        "a7",
        type="LoadBalancer",
        ports=[{**HTTP, "nodePort": 30077}],
        externalTrafficPolicy="Local",
        healthCheckNodePort=30078,
    ),
    service(
        "a7b",
        type="LoadBalancer",
        ports=[HTTP],
        allocateLoadBalancerNodePorts=False,
        loadBalancerClass="a.b/c",
        loadBalancerSourceRanges=["10.0.0.0/8 "],
    ),
    service("a7c", type="LoadBalancer", ports=[HTTP], clusterIP="None"),
    service("a8", type="ExternalName", externalName="foo.bar."),
    service("a8x", type="ExternalName", ports=[HTTP], clusterIP="10.0.0.7"),
    service("a9", sessionAffinity="ClientIP", ports=[HTTP], externalIPs=["1.2.3.4"], clusterIP="10.0.0.9"),
    service(
        "a10",
        sessionAffinity="Foo",
        type="Bar",
        ports=[HTTP],
        internalTrafficPolicy="X",
        trafficDistribution="y",
        selector={"a b": "c"},
    ),
    service(
        "a11",
        sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 100000}},
        ports=[{**HTTP, "appProtocol": "x y"}, {**HTTP, "targetPort": "Bad-"}],
        loadBalancerClass="x",
        externalTrafficPolicy="Local",
        healthCheckNodePort=30000,
        allocateLoadBalancerNodePorts=True,
        loadBalancerSourceRanges=["1.2.3.4"],
    ),
    service(
        "a12",
        ports=[{"port": 0, "protocol": "sctp"}, {"port": 70000, "targetPort": 70000}],
        externalIPs=["127.0.0.1", "x", "0.0.0.0", "169.254.1.1"],
    ),
    service("a13", ports=[HTTP], trafficDistribution="PreferClose", externalName="x", clusterIP="10.0.0.13"),
    reservice("0a", clusterIP="10.0.0.99"),
    reservice("0a", clusterIP=None, clusterIPs=None),
    reservice("0a", clusterIP="", ports=[{**HTTP, "targetPort": 8080}]),
    reservice("0a", type="NodePort", ports=[{**HTTP, "nodePort": 30100}]),
    reservice("0a", ports=[{**HTTP, "name": "other"}]),
    reservice("0a", ports=[{**HTTP, "nodePort": 30080}]),
    reservice("0a", type="ClusterIP"),
    reservice("0a", type="ExternalName", externalName="x.y"),
    reservice("0a", type="ClusterIP", clusterIP="10.0.0.5"),
    reservice("0a", ipFamilies=["IPv6"]),
    reservice("0a", ipFamilyPolicy="RequireDualStack"),
    reservice("a2", ports=[{"port": 1}], clusterIP="10.0.0.3"),
    reservice("a7", healthCheckNodePort=30079),
    reservice("a7", type="ClusterIP"),
    reservice("a7b", loadBalancerClass="a.b/d"),
    reservice("a4", selector={"-": "x"}),
    change("v1", "services", "0a/status", status={"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
    change(
        "v1",
        "services",
        "a7b/status",
        status={
            "loadBalancer": {
                "ingress": [
                    {"ip": "x"},
                    {"hostname": "1.2.3.4"},
                    {"hostname": "a_b", "ipMode": "VIP"},
                    {"ip": "1.2.3.4", "ipMode": "Z"},
                ]
            }
        },
    ),
    change("v1", "services", "a7b/status", status={"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
    create(
        "v1",
        "endpoints",
        "e",
        subsets=[
            {},
            {
                "addresses": [{"ip": "127.0.0.1"}, {"ip": "x", "hostname": "A"}],
                "ports": [{"port": 0}, {"port": 1, "name": "B"}],
            },
        ],
    ),
    create("v1", "endpoints", "e1", subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]),
    create("discovery.k8s.io/v1", "endpointslices", "e"),
    create(
        "discovery.k8s.io/v1",
        "endpointslices",
        "e",
        addressType="X",
        endpoints=[{"addresses": []}],
        ports=[{"name": "A", "protocol": "q"}, {"name": "A"}],
    ),
    create(
        "discovery.k8s.io/v1",
        "endpointslices",
        "e1",
        addressType="IPv4",
        endpoints=[
            {
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": True},
                "hints": {"forZones": [{"name": "z"}]},
                "deprecatedTopology": {"a": "b"},
            }
        ],
        ports=[{"port": 80}],
    ),
    create(
        "discovery.k8s.io/v1",
        "endpointslices",
        "e2",
        addressType="IPv4",
        endpoints=[{"addresses": ["::1", "127.0.0.1", "x"], "nodeName": "N_", "hostname": "H_"}],
    ),
    create("discovery.k8s.io/v1", "endpointslices", "e3", addressType="FQDN", endpoints=[{"addresses": ["a.b"]}]),
    change("discovery.k8s.io/v1", "endpointslices", "e1", addressType="IPv6"),
    change("discovery.k8s.io/v1", "endpointslices", "e1", metadata={"labels": {"a": "b"}}),
    change("discovery.k8s.io/v1", "endpointslices", "e1", metadata={"annotations": {"a": "b"}}),
]
EVENTS = "events.k8s.io/v1"
WHEN = "2020-01-01T00:00:00.123456Z"
OBJECTS = [
    create(
        "v1",
        "events",
        "e1",
        involvedObject=POD,
        reason="R",
        message="M",
        type="Normal",
        firstTimestamp="2020-01-01T00:00:00Z",
        lastTimestamp="2020-01-01T00:00:00Z",
        count=2,
        source={"component": "c", "host": "h"},
    ),
    create("v1", "events", "e2", involvedObject={"kind": "Pod", "name": "p"}, type="Foo"),
    create("v1", "events", "e3", involvedObject={"namespace": "t"}),
    create(
        "v1",
        "events",
        "e4",
        involvedObject={"namespace": "t"},
        eventTime=WHEN,
        reportingComponent="a b",
        action="a" * 129,
    ),
    change("v1", "events", "e1", message="other", count=3),
    create(
        EVENTS,
        "events",
        "e5",
        regarding=POD,
        eventTime=WHEN,
        reportingController="a.b/c",
        reportingInstance="i",
        action="A",
        reason="R",
        note="n",
        type="Normal",
    ),
    create(EVENTS, "events", "e6", regarding=POD),
    create(
        EVENTS,
        "events",
        "e6",
        regarding={"namespace": "t"},
        type="X",
        deprecatedCount=1,
        deprecatedSource={"component": "x"},
        series={"count": 1},
    ),
    change(EVENTS, "events", "e5", note="other", regarding={"name": "y"}, series={"count": 1}),
    change(EVENTS, "events", "e5", series={"count": 2, "lastObservedTime": WHEN}),
    create("coordination.k8s.io/v1", "leases", "l0"),
    create(
        "coordination.k8s.io/v1",
        "leases",
        "l1",
        spec={
            "holderIdentity": "x",
            "leaseDurationSeconds": 15,
            "acquireTime": "2020-01-01T00:00:00.000000Z",
            "renewTime": "2020-01-01T00:00:00.000000Z",
            "leaseTransitions": 1,
        },
    ),
    create(
        "coordination.k8s.io/v1",
        "leases",
        "l2",
        metadata={"finalizers": ["plain"]},
        spec={"leaseDurationSeconds": 0, "leaseTransitions": -1},
    ),
    change(
        "coordination.k8s.io/v1", "leases", "l1", metadata={"labels": {"a": "-"}}, spec={"leaseDurationSeconds": -1}
    ),
]
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
STORAGE_GROUP = "storage.k8s.io/v1"
VOLUMES = [
    create("v1", "persistentvolumes", "v0", False),
    create(
        "v1",
        "persistentvolumes",
        "v0",
        False,
        spec={
            "accessModes": ["X"],
            "capacity": {"cpu": "1"},
            "persistentVolumeReclaimPolicy": "Y",
            "volumeMode": "Z",
            "hostPath": {"path": ""},
            "nfs": {"path": "x", "server": ""},
        },
    ),
    create(
        "v1",
        "persistentvolumes",
        "v1",
        False,
        spec={
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1024Mi"},
            "hostPath": {"path": "/tmp"},
            "storageClassName": "x",
        },
    ),
    create(
        "v1",
        "persistentvolumes",
        "v2",
        False,
        spec={
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "0"},
            "csi": {"driver": "a", "volumeHandle": ""},
        },
    ),
    create(
        "v1",
        "persistentvolumes",
        "v3",
        False,
        spec={
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/tmp"},
        },
    ),
    change("v1", "persistentvolumes", "v1", False, spec={"volumeMode": "Block"}),
    change("v1", "persistentvolumes", "v1", False, spec={"claimRef": {"namespace": "t", "name": "c1"}}),
    change("v1", "persistentvolumes", "v1/status", False, status={"phase": "Bound"}),
    create("v1", "persistentvolumeclaims", "c0"),
    create(
        "v1",
        "persistentvolumeclaims",
        "c0",
        spec={
            "accessModes": ["X", "ReadWriteOncePod", "ReadWriteOnce"],
            "resources": {"requests": {"storage": "-1"}},
            "volumeMode": "Z",
            "storageClassName": "a_b",
            "selector": {
                "matchExpressions": [
                    {"key": "a", "operator": "Foo"},
                    {"key": "b", "operator": "In"},
                    {"key": "c d", "operator": "Exists", "values": ["x y"]},
                ]
            },
            "dataSource": {"kind": "X", "name": ""},
        },
    ),
    create("v1", "persistentvolumeclaims", "c1", spec=CLAIM),
    create(
        "v1",
        "persistentvolumeclaims",
        "c2",
        spec={**CLAIM, "dataSource": {"kind": "PersistentVolumeClaim", "name": "c1"}, "storageClassName": ""},
    ),
    change("v1", "persistentvolumeclaims", "c1", spec={"resources": {"requests": {"storage": "2Gi"}}}),
    change(
        "v1",
        "persistentvolumeclaims",
        "c1",
        spec={"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "512Mi"}}},
    ),
    change("v1", "persistentvolumeclaims", "c1", spec={"volumeName": "v1", "storageClassName": "x"}),
    change(
        "v1",
        "persistentvolumeclaims",
        "c1/status",
        status={"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    ),
    change("v1", "persistentvolumeclaims", "c1", spec={"resources": {"requests": {"storage": "512Mi"}}}),
    change("v1", "persistentvolumeclaims", "c1", spec={"volumeName": "other"}),
    create(STORAGE_GROUP, "storageclasses", "s0", False),
    create(
        STORAGE_GROUP,
        "storageclasses",
        "s1",
        False,
        provisioner="a b",
        reclaimPolicy="X",
        volumeBindingMode="Y",
        parameters={"": "x"},
    ),
    create(STORAGE_GROUP, "storageclasses", "s2", False, provisioner="x.y/z"),
    change(
        STORAGE_GROUP, "storageclasses", "s2", False, provisioner="q", parameters={"a": "b"}, reclaimPolicy="Retain"
    ),
    change(STORAGE_GROUP, "storageclasses", "s2", False, allowVolumeExpansion=True),
    create(STORAGE_GROUP, "csidrivers", "d0", False),
    create(STORAGE_GROUP, "csidrivers", "d1", False, spec={"fsGroupPolicy": "X", "volumeLifecycleModes": ["Y"]}),
    create(STORAGE_GROUP, "csinodes", "d1", False, spec={"drivers": [{"name": "a b", "nodeID": ""}]}),
    create(STORAGE_GROUP, "csinodes", "d1", False),
    create(STORAGE_GROUP, "volumeattachments", "d1", False, spec={"attacher": "", "nodeName": "", "source": {}}),
    create(
        STORAGE_GROUP,
        "volumeattachments",
        "d2",
        False,
        spec={"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    ),
    create(STORAGE_GROUP, "csistoragecapacities", "d1", storageClassName=""),
]
PDB, HPA1, HPA2 = "policy/v1", "autoscaling/v1", "autoscaling/v2"
TARGET = {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}
METRICS = [
    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1k"}}},
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 40}}},
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    {
        "type": "External",
        "external": {
            "metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "Value", "value": "30"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
            "metric": {"name": "o"},
            "target": {"type": "Value", "value": "30"},
        },
    },
]
POLICIES = [
    create(PDB, "poddisruptionbudgets", "Bad_d", spec={"minAvailable": 1, "maxUnavailable": "10%"}),
    create(PDB, "poddisruptionbudgets", "Bad_e", metadata={"finalizers": ["foo"]}),
    create(
        PDB,
        "poddisruptionbudgets",
        "d2",
        spec={"minAvailable": "110%", "selector": {"matchLabels": {"a b": "c"}}, "unhealthyPodEvictionPolicy": "X"},
    ),
    create(PDB, "poddisruptionbudgets", "d2", spec={"minAvailable": "x"}),
    create(PDB, "poddisruptionbudgets", "d2", spec={"minAvailable": -1}),
    create(PDB, "poddisruptionbudgets", "d3", spec={"maxUnavailable": 1, "selector": {"matchLabels": {"a": "c"}}}),
    create(PDB, "poddisruptionbudgets", "d4", spec={"maxUnavailable": "30%", "selector": {}}),
    change(PDB, "poddisruptionbudgets", "d3", spec={"maxUnavailable": 2}),
    change(PDB, "poddisruptionbudgets", "d3", metadata={"labels": {"a": "-"}}),
    change(
        PDB,
        "poddisruptionbudgets",
        "d3/status",
        status={"disruptionsAllowed": -1, "conditions": [{"type": "a b", "status": "X"}]},
    ),
    change(PDB, "poddisruptionbudgets", "d3/status", status={"disruptionsAllowed": 1, "expectedPods": 3}),
    create(HPA1, "horizontalpodautoscalers", "h1", spec={"scaleTargetRef": TARGET, "maxReplicas": 3}),
    create(
        HPA1,
        "horizontalpodautoscalers",
        "h2",
        spec={"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50, "minReplicas": 2},
    ),
    create(
        HPA2,
        "horizontalpodautoscalers",
        "h3",
        spec={
            "scaleTargetRef": TARGET,
            "maxReplicas": 3,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10}},
            "metrics": METRICS,
        },
    ),
    create(HPA2, "horizontalpodautoscalers", "h4", spec={"scaleTargetRef": TARGET, "maxReplicas": 3}),
    change(HPA1, "horizontalpodautoscalers", "h3", spec={"targetCPUUtilizationPercentage": 77}),
    change(HPA2, "horizontalpodautoscalers", "h3", spec={"minReplicas": 9}),
    change(
        HPA2,
        "horizontalpodautoscalers",
        "h3/status",
        status={
            "currentReplicas": 1,
            "desiredReplicas": 2,
            "lastScaleTime": "2020-01-01T00:00:00Z",
            "conditions": [
                {
                    "type": "AbleToScale",
                    "status": "True",
                    "lastTransitionTime": "2020-01-01T00:00:00Z",
                    "reason": "r",
                    "message": "m",
                }
            ],
            "currentMetrics": [
                {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "500m"}}},
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "current": {"averageUtilization": 30, "averageValue": "100m"}},
                },
            ],
        },
    ),
    change(HPA1, "horizontalpodautoscalers", "h3", spec={"maxReplicas": 4}),
    create(HPA2, "horizontalpodautoscalers", "h9", spec={}),
    create(
        HPA2,
        "horizontalpodautoscalers",
        "h9",
        spec={
            "minReplicas": 0,
            "maxReplicas": -1,
            "scaleTargetRef": {"kind": "a/b", "name": ".."},
            "metrics": [
                {"type": "X"},
                {"type": "Resource"},
                {"type": "Resource", "resource": {"name": "", "target": {"type": "Utilization"}}},
                {"type": "Pods", "pods": {"metric": {"name": ""}, "target": {"type": "Value", "value": "1"}}},
            ],
            "behavior": {
                "scaleUp": {
                    "stabilizationWindowSeconds": -1,
                    "selectPolicy": "X",
                    "policies": [{"type": "Y", "value": 0, "periodSeconds": 2000}],
                }
            },
        },
    ),
    create(
        "v1",
        "limitranges",
        "l0",
        spec={
            "limits": [
                {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}},
                {"type": "Container"},
                {"type": "Pod", "default": {"cpu": "1"}},
                {"type": "PersistentVolumeClaim"},
                {"type": "Foo Bar"},
            ]
        },
    ),
    create(
        "v1", "limitranges", "l1", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}}]}
    ),
    create(
        "v1",
        "resourcequotas",
        "q0",
        spec={
            "hard": {"cpu": "-1", "foo": "1", "pods": "1.5", "count/x.y": "2"},
            "scopes": ["X", "BestEffort", "NotBestEffort"],
        },
    ),
    create("v1", "resourcequotas", "q1", spec={"hard": {"cpu": "1", "pods": "10", "limits.cpu": "2"}}),
]
RBAC = "rbac.authorization.k8s.io/v1"
RBAC_CASES = [
    create(RBAC, "roles", "a:b/c", rules=[{"verbs": []}]),
    create(RBAC, "roles", "r1"),
    create(
        RBAC,
        "roles",
        "r:2",
        rules=[
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
            {"verbs": ["get"], "apiGroups": [""]},
            {"apiGroups": [""], "resources": ["a"]},
        ],
    ),
    create(
        RBAC,
        "clusterroles",
        "r2",
        False,
        rules=[{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["x"]}],
        aggregationRule={"clusterRoleSelectors": []},
    ),
    create(RBAC, "clusterroles", "r3", False, aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
    create(RBAC, "rolebindings", "rb"),
    create(
        RBAC,
        "rolebindings",
        "rb",
        roleRef={"apiGroup": "x", "kind": "Foo", "name": ""},
        subjects=[
            {"kind": "User", "name": ""},
            {"kind": "ServiceAccount", "name": "a_b"},
            {"kind": "Foo", "name": "x"},
            {"kind": "Group", "name": "g", "apiGroup": "y"},
        ],
    ),
    create(
        RBAC,
        "rolebindings",
        "rb",
        roleRef={"kind": "Role", "name": "x"},
        subjects=[
            {"kind": "User", "name": "u"},
            {"kind": "ServiceAccount", "name": "a", "namespace": "t"},
            {"kind": "Group", "name": "g"},
        ],
    ),
    change(RBAC, "rolebindings", "rb", roleRef={"name": "y"}),
    change(RBAC, "rolebindings", "rb", subjects=None, metadata={"labels": {"a": "b"}}),
    create(
        RBAC,
        "clusterrolebindings",
        "rb",
        False,
        roleRef={"kind": "Role", "name": "x"},
        subjects=[{"kind": "ServiceAccount", "name": "a"}],
    ),
    create(
        RBAC,
        "clusterrolebindings",
        "rb",
        False,
        roleRef={"kind": "ClusterRole", "name": "x:y"},
        subjects=[{"kind": "ServiceAccount", "name": "a", "namespace": "b"}],
    ),
]
HOOKS = "admissionregistration.k8s.io/v1"
PODS_RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK = {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"]}
HOOK_CASES = [
    create(HOOKS, "validatingwebhookconfigurations", "w0", False),
    create(HOOKS, "validatingwebhookconfigurations", "w1", False, webhooks=[{"name": "a"}]),
    create(
        HOOKS,
        "validatingwebhookconfigurations",
        "w1",
        False,
        webhooks=[
            {
                "name": "a.b.c",
                "clientConfig": {"url": "http://x", "service": {"name": "", "namespace": ""}},
                "rules": [
                    {
                        "operations": ["*", "CREATE"],
                        "apiGroups": ["*", "a"],
                        "apiVersions": [],
                        "resources": ["pods/*", "*/*", "a"],
                    }
                ],
                "sideEffects": "X",
                "admissionReviewVersions": ["v2"],
                "failurePolicy": "Y",
                "timeoutSeconds": 40,
                "matchPolicy": "Z",
                "matchConditions": [{"name": "a b", "expression": ""}],
            }
        ],
    ),
    create(
        HOOKS,
        "mutatingwebhookconfigurations",
        "w2",
        False,
        webhooks=[{**HOOK, "clientConfig": {"service": {"name": "a", "namespace": "b"}}, "rules": [PODS_RULE]}],
    ),
    create(
        HOOKS,
        "validatingwebhookconfigurations",
        "w3",
        False,
        webhooks=[
            {**HOOK, "clientConfig": {"url": "https://x/y?z#f"}, "admissionReviewVersions": ["v1", "v1"]},
            {**HOOK, "clientConfig": {"url": "ftp:///"}},
        ],
    ),
    create(
        HOOKS,
        "validatingwebhookconfigurations",
        "w4",
        False,
        webhooks=[
            {
                **HOOK,
                "clientConfig": {"service": {"name": "a", "namespace": "b", "port": 0, "path": "x//Y"}},
                "rules": [{**PODS_RULE, "scope": "Q", "operations": ["GET"]}],
            }
        ],
    ),
    create(
        HOOKS,
        "validatingwebhookconfigurations",
        "w5",
        False,
        webhooks=[
            {
                **HOOK,
                "clientConfig": {"service": {"name": "a", "namespace": "b", "path": "/x/y/"}},
                "rules": [{**PODS_RULE, "resources": ["*", "pods/status"]}],
            }
        ],
    ),
    change(
        HOOKS, "validatingwebhookconfigurations", "w5", False, webhooks=[{**HOOK, "clientConfig": {"url": "https://x"}}]
    ),
    create(HOOKS, "validatingadmissionpolicies", "p0", False, spec={}),
    create(
        HOOKS,
        "validatingadmissionpolicies",
        "p1",
        False,
        spec={"matchConstraints": {"resourceRules": [PODS_RULE]}, "validations": [{"expression": "true"}]},
    ),
    create(HOOKS, "validatingadmissionpolicybindings", "p1", False, spec={}),
    create(
        HOOKS, "validatingadmissionpolicybindings", "p1", False, spec={"policyName": "x", "validationActions": ["Deny"]}
    ),
    create(
        HOOKS,
        "validatingadmissionpolicybindings",
        "p2",
        False,
        spec={"policyName": "x", "validationActions": ["Deny", "Warn", "Deny", "X"]},
    ),
]
NET = "networking.k8s.io/v1"
NETWORK = [
    create(NET, "ingresses", "i0"),
    create(
        NET,
        "ingresses",
        "i1",
        spec={
            "ingressClassName": "a_b",
            "rules": [
                {
                    "host": "A b",
                    "http": {
                        "paths": [
                            {"path": "x", "pathType": "Y", "backend": {}},
                            {
                                "path": "/a//b",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "A", "port": {"number": 0, "name": ""}}},
                            },
                        ]
                    },
                },
                {"host": "1.2.3.4"},
                {"host": "*.foo.com", "http": {"paths": []}},
            ],
            "tls": [{"hosts": ["a_b"]}],
        },
    ),
    create(
        NET,
        "ingresses",
        "i2",
        metadata={"annotations": {"kubernetes.io/ingress.class": "x"}},
        spec={
            "defaultBackend": {"service": {"name": "a", "port": {"number": 80}}},
            "rules": [
                {
                    "host": "a.b",
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "a", "port": {"name": "http"}}},
                            }
                        ]
                    },
                }
            ],
            "tls": [{"hosts": ["a.b"], "secretName": "s"}],
        },
    ),
    change(NET, "ingresses", "i2", spec={"defaultBackend": None}),
    create(NET, "ingressclasses", "c0", False),
    create(NET, "ingressclasses", "c0", False, spec={"controller": "a b", "parameters": {"kind": "", "name": ""}}),
    create(NET, "ingressclasses", "c1", False, spec={"controller": "a.b/c", "parameters": {"kind": "K", "name": "n"}}),
    change(NET, "ingressclasses", "c1", False, spec={"controller": "a.b/d"}),
    create(NET, "networkpolicies", "n0"),
    create(
        NET,
        "networkpolicies",
        "n1",
        spec={
            "policyTypes": ["X"],
            "ingress": [
                {
                    "ports": [{"port": 0, "protocol": "Q"}, {"endPort": 5}],
                    "from": [
                        {},
                        {"ipBlock": {"cidr": "1.2.3.4"}, "podSelector": {}},
                        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}},
                    ],
                }
            ],
        },
    ),
    create(
        NET,
        "networkpolicies",
        "n2",
        spec={
            "podSelector": {"matchLabels": {"a": "b"}},
            "egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 80}]}],
        },
    ),
    create("scheduling.k8s.io/v1", "priorityclasses", "p0", False),
    create("scheduling.k8s.io/v1", "priorityclasses", "p1", False, value=5, globalDefault=False, description="x"),
    create("scheduling.k8s.io/v1", "priorityclasses", "system-x", False, value=5, preemptionPolicy="X"),
    create("scheduling.k8s.io/v1", "priorityclasses", "p2", False, value=1000000001),
    change("scheduling.k8s.io/v1", "priorityclasses", "p1", False, value=6, preemptionPolicy="Never"),
    create("node.k8s.io/v1", "runtimeclasses", "r0", False),
    create("node.k8s.io/v1", "runtimeclasses", "r1", False, handler="a_b", overhead={"podFixed": {"cpu": "100m"}}),
    create(
        "node.k8s.io/v1",
        "runtimeclasses",
        "r1",
        False,
        handler="ab",
        overhead={"podFixed": {"cpu": "100m"}},
        scheduling={"nodeSelector": {"a": "b"}},
    ),
    change("node.k8s.io/v1", "runtimeclasses", "r1", False, handler="c"),
]
REST = [
    create("v1", "nodes", "node0", False),
    create(
        "v1",
        "nodes",
        "Node_1",
        False,
        spec={
            "podCIDR": "10.0.0.0/33",
            "taints": [
                {"key": "a b", "effect": "X"},
                {"key": "a", "effect": "NoSchedule"},
                {"key": "a", "effect": "NoSchedule"},
            ],
        },
    ),
    create(
        "v1",
        "nodes",
        "node2",
        False,
        spec={"podCIDR": "10.1.0.0/24", "taints": [{"key": "a", "effect": "NoExecute", "value": "v"}]},
        status={"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    ),
    change("v1", "nodes", "node2", False, spec={"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}),
    change("v1", "nodes", "node2", False, spec={"unschedulable": True}),
    create("apiregistration.k8s.io/v1", "apiservices", "v1.foo", False),
    create(
        "apiregistration.k8s.io/v1",
        "apiservices",
        "v1.foo.com",
        False,
        spec={
            "group": "foo.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"name": "x", "namespace": "y"},
            "insecureSkipTLSVerify": True,
        },
    ),
    create("certificates.k8s.io/v1", "certificatesigningrequests", "c", False, spec={}),
    create("flowcontrol.apiserver.k8s.io/v1", "flowschemas", "f", False, spec={}),
    create(
        "flowcontrol.apiserver.k8s.io/v1",
        "flowschemas",
        "f1",
        False,
        spec={"priorityLevelConfiguration": {"name": "f1"}},
    ),
    create("flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations", "f", False, spec={}),
    create(
        "flowcontrol.apiserver.k8s.io/v1",
        "prioritylevelconfigurations",
        "f2",
        False,
        spec={"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}},
    ),
    create("resource.k8s.io/v1", "deviceclasses", "d", False, spec={}),
    create("resource.k8s.io/v1", "resourceclaims", "d", spec={}),
    create(
        "resource.k8s.io/v1",
        "resourceclaims",
        "d1",
        spec={"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "x"}}]}},
    ),
    create(NET, "servicecidrs", "s", False, spec={"cidrs": ["x"]}),
    create(NET, "ipaddresses", "1.2.3.4", False, spec={}),
]
CASES: list[Case] = [
    *METADATA, *CONFIG, *SERVICES, *OBJECTS, *VOLUMES, *POLICIES, *RBAC_CASES, *HOOK_CASES, *NETWORK, *REST
]  # fmt: skip
