"""Adding the containers of SidecarSets to a Pod, and the record of it that the Pod carries.

Pure functions. The record says for each SidecarSet which generation was injected, and hashes of the content: `hash` of
all of it, `shape` of all but the images, which alone can be changed in a Pod that runs.
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
from sidecarset.defaulting import pull_policy, with_defaults
from sidecarset.selecting import matches

__all__ = ["ANNOTATION", "MARK", "OPT_OUT", "Record", "content", "injected", "record_of", "records", "wants_sidecars"]

ANNOTATION = "kruise.io/sidecarset-generation"
OPT_OUT = "sidecar.kruise.io/inject"
"""`"false"` as an annotation or a label keeps a Pod as it is."""
MARK = EnvVar(name="IS_INJECTED", value="true")
SKIPPED = frozenset(("kube-system", "kube-public"))
_MIRROR = "kubernetes.io/config.mirror"


class Record(msgspec.Struct, frozen=True, rename={"images": "from"}, omit_defaults=True):
    """What a Pod says of one SidecarSet."""

    generation: int
    hash: str = ""
    shape: str = ""
    images: Mapping[str, str] = EMPTY
    """Images that an update in place has replaced, by container."""


class Content(NamedTuple):
    hash: str
    shape: str


def content(sidecars: SidecarSet) -> Content:
    """Hashes of what is injected: of all of it, and of all but the images."""
    plain = [to_dict(sidecar(c)) for c in sidecars.spec.containers]
    whole = _hash(plain)
    for container in plain:
        image = container.pop("image", "")
        if container["imagePullPolicy"] == pull_policy(image):  # follows from the image, and is no change of its own
            del container["imagePullPolicy"]
    return Content(whole, _hash(plain))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def sidecar(container: Container) -> Container:
    """The container as it is injected: complete, and marked."""
    env = (*(variable for variable in container.env if variable.name != MARK.name), MARK)
    return replace(with_defaults(container), env=env)


def record_of(sidecars: SidecarSet) -> Record:
    """What a Pod that is injected now says."""
    return Record(sidecars.metadata.generation, *content(sidecars))


def records(pod: Pod) -> dict[str, Record]:
    """What a Pod says of each SidecarSet, by name; what cannot be read says nothing."""
    text = pod.metadata.annotations.get(ANNOTATION)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Record])
    except (msgspec.DecodeError, ValueError):
        return {}


def written(found: Mapping[str, Record]) -> str:
    """The annotation that says this."""
    return msgspec.json.encode({name: found[name] for name in sorted(found)}).decode()


def wants_sidecars(pod: Pod, namespace: str) -> bool:
    """Whether a Pod that is created in `namespace` may be given containers."""
    metadata = pod.metadata
    refused = "false" in (metadata.annotations.get(OPT_OUT), metadata.labels.get(OPT_OUT))
    return namespace not in SKIPPED and not refused and _MIRROR not in metadata.annotations


def injected(pod: Pod, sets: Iterable[SidecarSet], namespace: str) -> Pod:
    """The Pod with the containers of every SidecarSet that matches it: by name of the set, then as the set has them.

    A container whose name the Pod has already is not added, so that injecting twice adds nothing.
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
    """Whether a container of a Pod was injected."""
    return any(variable.name == MARK.name and variable.value == MARK.value for variable in container.env)
