"""Adds the containers of SidecarSets to a Pod, with a record in its annotation.

Pure functions. The record has for each SidecarSet the injected generation, and hashes of the content: `hash` of all of
it, `shape` of everything but the images, which are the only part that can change in a running Pod.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from steersman import EMPTY, replace
from steersman.k8s import Container, EnvVar, Pod
from steersman.models import to_dict

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet
from sidecarset.defaults import pull_policy, with_defaults
from sidecarset.selectors import matches

__all__ = ["ANNOTATION", "MARK", "OPT_OUT", "Record", "content", "injected", "record_of", "records", "wants_sidecars"]

ANNOTATION = "kruise.io/sidecarset-generation"
OPT_OUT = "sidecar.kruise.io/inject"
"""`"false"` as an annotation or a label excludes a Pod from injection."""
MARK = EnvVar(name="IS_INJECTED", value="true")
SKIPPED = frozenset(("kube-system", "kube-public"))
_MIRROR = "kubernetes.io/config.mirror"


class Record(msgspec.Struct, frozen=True, rename={"images": "from"}, omit_defaults=True):
    """The record of one SidecarSet in a Pod."""

    generation: int
    hash: str = ""
    shape: str = ""
    images: Mapping[str, str] = EMPTY
    """Images that an in-place update has replaced, by container."""


class Content(NamedTuple):
    hash: str
    shape: str


def content(sidecars: SidecarSet) -> Content:
    """Return hashes of the content: of all of it, and of all but the images."""
    plain = [to_dict(sidecar(c)) for c in sidecars.spec.containers]
    whole = _hash(plain)
    for container in plain:
        image = container.pop("image", "")
        # The default follows from the image, and is not a change by itself.
        if container["imagePullPolicy"] == pull_policy(image):
            del container["imagePullPolicy"]
    return Content(whole, _hash(plain))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def sidecar(container: Container) -> Container:
    """Return the container for injection: complete, and marked."""
    env = (*(variable for variable in container.env if variable.name != MARK.name), MARK)
    return replace(with_defaults(container), env=env)


def record_of(sidecars: SidecarSet) -> Record:
    """Return the record of a Pod that is injected now."""
    return Record(sidecars.metadata.generation, *content(sidecars))


def records(pod: Pod) -> dict[str, Record]:
    """Return the records of a Pod by SidecarSet; an unreadable annotation counts as empty."""
    text = pod.metadata.annotations.get(ANNOTATION)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Record])
    except (msgspec.DecodeError, ValueError):
        return {}


def written(found: Mapping[str, Record]) -> str:
    """Return the annotation with these records."""
    return msgspec.json.encode({name: found[name] for name in sorted(found)}).decode()


def wants_sidecars(pod: Pod, namespace: str) -> bool:
    """Return whether a Pod that is created in `namespace` may get containers."""
    metadata = pod.metadata
    refused = "false" in (metadata.annotations.get(OPT_OUT), metadata.labels.get(OPT_OUT))
    return namespace not in SKIPPED and not refused and _MIRROR not in metadata.annotations


def injected(pod: Pod, sets: Iterable[SidecarSet], namespace: str) -> Pod:
    """Return the Pod with the containers of every matching SidecarSet, sorted by set and then in its order.

    A container whose name exists in the Pod is not added, so that a second injection adds nothing.
    """
    if not wants_sidecars(pod, namespace):
        return pod
    known = records(pod)
    names = {container.name for container in (*pod.spec.containers, *pod.spec.init_containers)}
    added: list[Container] = []
    for sidecars in sorted(sets, key=lambda one: one.metadata.name):
        if sidecars.metadata.deletion_timestamp is not None or not matches(sidecars, pod):
            continue
        new = [sidecar(c) for c in sidecars.spec.containers if c.name not in names]
        names.update(c.name for c in new)
        added += new
        if new or sidecars.metadata.name not in known:
            known[sidecars.metadata.name] = record_of(sidecars)
    text = written(known)
    if not added and (not known or pod.metadata.annotations.get(ANNOTATION) == text):
        return pod
    annotations = {**pod.metadata.annotations, ANNOTATION: text}
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=annotations),
        spec=replace(pod.spec, containers=(*pod.spec.containers, *added)),
    )


def is_sidecar(container: Container) -> bool:
    """Return whether a container of a Pod was injected."""
    return any(variable.name == MARK.name and variable.value == MARK.value for variable in container.env)
