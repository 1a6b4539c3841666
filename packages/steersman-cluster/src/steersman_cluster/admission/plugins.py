"""The small built-in plug-ins for Pods, claims and namespaced writes; all are synchronous.

Each is a function of the write and the stored objects. Texts and effects follow the API server's
`plugin/pkg/admission`.
"""

from __future__ import annotations

from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.write import CREATE, DELETE, UPDATE, Write
from steersman_cluster.errors import forbidden, not_found
from steersman_cluster.json_access import get_object, get_objects, get_strings
from steersman_cluster.objects import Object, annotations_of, meta, name_of

__all__ = [
    "default_ingress_class",
    "default_storage_class",
    "default_tolerations",
    "in_use_protection",
    "namespace_lifecycle",
    "not_ready_taint",
    "pod_priority",
    "runtime_class",
    "single_default_priority",
]

_PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")
_NOT_READY, _UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_PROTECTED = {
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


def namespace_lifecycle(write: Write, lookups: Lookups) -> None:
    """NamespaceLifecycle: nothing is created in a namespace that is not there or is going away."""
    if write.resource == "namespaces" and not write.group:
        if write.operation == DELETE and write.name in _PROTECTED_NAMESPACES:
            raise forbidden("", "namespaces", write.name, "this namespace may not be deleted")
        return
    if not write.namespace or write.operation == DELETE or write.resource == "localsubjectaccessreviews":
        return
    namespace = lookups.namespace(write.namespace)
    if namespace is None:
        raise not_found("", "namespaces", write.namespace)
    if write.operation == CREATE and get_object(namespace, "status").get("phase") == "Terminating":
        raise write.forbidden(
            f"unable to create new content in namespace {write.namespace} because it is being terminated",
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {write.namespace} is being terminated",
                "field": "metadata.namespace",
            },
        )


def default_tolerations(write: Write, _: Lookups) -> None:
    """DefaultTolerationSeconds: by default a Pod stays on an unreachable node for five minutes."""
    if write.obj is None:
        return
    spec = write.obj.setdefault("spec", {})
    tolerations = get_objects(spec, "tolerations")
    missing: list[Object] = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in (_NOT_READY, _UNREACHABLE)
        if not any(
            item.get("key") in (None, "", key) and item.get("effect") in (None, "", "NoExecute") for item in tolerations
        )
    ]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def pod_priority(write: Write, lookups: Lookups) -> None:
    """Priority: a Pod's priority comes from its class, or from the default one."""
    if write.obj is None:
        return
    spec = write.obj.setdefault("spec", {})
    if write.operation == UPDATE:
        old = get_object(write.old or {}, "spec")
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and old.get(field) is not None:
                spec[field] = old[field]
        return
    name = spec.get("priorityClassName") or ""
    if name:
        found = lookups.priority_class(name)
        if found is None:
            raise write.forbidden(f"no PriorityClass with name {name} was found")
    else:
        found = lookups.default_priority_class() or {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
        if default := name_of(found):
            spec["priorityClassName"] = default
    _compute(write, spec, "priority", "the integer value of priority", found.get("value") or 0)
    if found.get("preemptionPolicy") is not None:
        _compute(write, spec, "preemptionPolicy", "the string value of PreemptionPolicy", found["preemptionPolicy"])


def _compute(write: Write, spec: Object, field: str, what: str, value: int | str) -> None:
    given = spec.get(field)
    if given is not None and given != value:
        raise write.forbidden(
            f"{what} ({given}) must not be provided in pod spec; priority admission controller computed {value} from"
            " the given PriorityClass name"
        )
    spec[field] = value


def single_default_priority(write: Write, lookups: Lookups) -> None:
    """Priority, for PriorityClasses: only one may be the default."""
    if write.obj is None or not write.obj.get("globalDefault"):
        return
    default = lookups.default_priority_class()
    if default is not None and (write.operation == CREATE or name_of(default) != name_of(write.obj)):
        why = f"PriorityClass {name_of(default)} is already marked as default. Only one default can exist"
        raise write.forbidden(why)


def default_storage_class(write: Write, lookups: Lookups) -> None:
    """DefaultStorageClass: a claim that names no class gets the newest of those that are marked as default."""
    if write.obj is None or "volume.beta.kubernetes.io/storage-class" in annotations_of(write.obj):
        return
    spec = write.obj.setdefault("spec", {})
    if spec.get("storageClassName") is None and (name := lookups.default_class("storage.k8s.io", "storageclasses")):
        spec["storageClassName"] = name


def default_ingress_class(write: Write, lookups: Lookups) -> None:
    """DefaultIngressClass: an Ingress that names no class gets the one that is marked as default."""
    if write.obj is None or "kubernetes.io/ingress.class" in annotations_of(write.obj):
        return
    spec = write.obj.setdefault("spec", {})
    if spec.get("ingressClassName") is None and (name := lookups.default_class("networking.k8s.io", "ingressclasses")):
        spec["ingressClassName"] = name


def in_use_protection(write: Write, _: Lookups) -> None:
    """StorageObjectInUseProtection: the finalizer that keeps a claim or volume while it is used."""
    finalizer = _PROTECTED.get((write.group, write.resource))
    if write.obj is None or finalizer is None or write.subresource:
        return
    metadata = meta(write.obj)
    present = get_strings(metadata, "finalizers")
    if finalizer not in present:
        metadata["finalizers"] = [*present, finalizer]


def not_ready_taint(write: Write, _: Lookups) -> None:
    """TaintNodesByCondition: a new node is tainted until the node controller finds it ready."""
    if write.obj is None:
        return
    spec = write.obj.setdefault("spec", {})
    taints = get_objects(spec, "taints")
    if not any(taint.get("key") == _NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]


def runtime_class(write: Write, lookups: Lookups) -> None:
    """RuntimeClass: the class that a Pod names must exist; its overhead and scheduling become the Pod's."""
    if write.obj is None:
        return
    spec = get_object(write.obj, "spec")
    name = spec.get("runtimeClassName")
    if not name:
        return
    found = lookups.reader.get("node.k8s.io", "runtimeclasses", "", name)
    if found is None:
        raise write.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
    overhead = get_object(found, "overhead").get("podFixed")
    if overhead and spec.get("overhead") is None:
        spec["overhead"] = dict(overhead)
    scheduling = get_object(found, "scheduling")
    if selector := get_object(scheduling, "nodeSelector"):
        given = get_object(spec, "nodeSelector")
        for key, value in selector.items():
            if given.get(key, value) != value:
                why = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}]"
                raise write.forbidden(f"pod rejected: {why} = {given[key]}")
        spec["nodeSelector"] = {**given, **selector}
    if tolerations := get_objects(scheduling, "tolerations"):
        given_tolerations = get_objects(spec, "tolerations")
        spec["tolerations"] = given_tolerations + [item for item in tolerations if item not in given_tolerations]
