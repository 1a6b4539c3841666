"""ControllerRevisions: the history of a StatefulSet's or DaemonSet's template, and which of its Pods has which.

A revision holds the template as a patch, so that an earlier one can be put back. Equal templates share a revision:
going back gives an old one a new number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from steersman.client import AlreadyExists, Forbidden
from steersman.controller import RequeueError
from steersman.k8s import ControllerRevision
from steersman.k8s.core_v1 import PodTemplateSpec
from steersman.models import MergePatch, ObjectMeta, from_dict, to_dict
from steersman.operator import Context
from steersman_cluster.controllers.terminating_namespaces import creation_error
from steersman_cluster.controllers.workloads.adoption import claimed

__all__ = ["REVISION_LABEL", "by_revision", "current_revision", "prune", "revision_hash", "template_of"]

REVISION_LABEL = "controller-revision-hash"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619
_EPOCH = datetime.fromtimestamp(0, UTC)


def revision_hash(data: bytes, collisions: int) -> str:
    """Return the hash in the names of revisions: FNV-1 of the data and the collision count, in letters and digits.

    Source: `HashControllerRevision` of k8s.io/kubernetes/pkg/controller/history.
    """
    value = _FNV_OFFSET
    for byte in data + str(collisions).encode():
        value = value * _FNV_PRIME % 2**32 ^ byte
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(value))


def by_revision(revision: ControllerRevision) -> tuple[int, datetime, str]:
    """The order of a history."""
    return revision.revision, revision.metadata.creation_timestamp or _EPOCH, revision.metadata.name


def data_of(template: PodTemplateSpec) -> dict[str, Any]:
    """Return the data of a revision: a strategic merge patch that restores the template."""
    kept = {"spec": {"template": {**to_dict(template), "$patch": "replace"}}}
    # In the order of Go's maps, because the names of revisions are hashes of these bytes.
    return cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(kept, order="sorted")))


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """Return the Pod template that a ControllerRevision stores."""
    kept = dict(revision.data["spec"]["template"])
    kept.pop("$patch", None)
    return from_dict(PodTemplateSpec, kept)


async def current_revision(
    ctx: Context, owner: Any, collisions: int, *, label: str = REVISION_LABEL
) -> tuple[ControllerRevision, list[ControllerRevision]]:
    """The revision of the owner's present template, made if it is new, and the whole history in order.

    `label` is the label of a revision that holds its hash.
    """
    history = sorted(await claimed(ctx, owner, ControllerRevision), key=by_revision)
    template: PodTemplateSpec = owner.spec.template
    newest = history[-1].revision if history else 0
    for revision in reversed(history):
        if template_of(revision) == template:
            if revision.revision < newest:
                patch = MergePatch({"metadata": {"uid": revision.metadata.uid}, "revision": newest + 1})
                revision = await ctx.patch(revision, patch)
                history = sorted(
                    [*(r for r in history if r.metadata.uid != revision.metadata.uid), revision], key=by_revision
                )
            return revision, history
    data = data_of(template)
    digest = revision_hash(msgspec.json.encode(data), collisions)
    template_labels: Mapping[str, str] = template.metadata.labels if template.metadata else {}
    labels = {**template_labels, label: digest}
    made = ControllerRevision(
        metadata=ObjectMeta(
            name=f"{owner.metadata.name}-{digest}",
            namespace=owner.metadata.namespace,
            labels=labels,
            annotations={k: v for k, v in owner.metadata.annotations.items() if "last-applied" not in k},
        ),
        data=data,
        revision=newest + 1,
    )
    try:
        created = await ctx.create(made)
    except Forbidden as problem:
        raise creation_error(problem) from problem
    except AlreadyExists:
        found = await ctx.fetch(ControllerRevision, made.metadata.name)
        mine = found is not None and any(o.uid == owner.metadata.uid for o in found.metadata.owner_references)
        if found is not None and mine and template_of(found) == template:
            return found, sorted([*history, found], key=by_revision)  # the cache is behind
        if found is None or mine:
            raise RequeueError("the revision exists, but is not seen yet", after=0.1) from None
        body = {"metadata": {"uid": owner.metadata.uid}, "status": {"collisionCount": collisions + 1}}
        await ctx.patch(owner, MergePatch(body), subresource="status")
        raise RequeueError("another revision has the same name", after=0.05) from None
    return created, [*history, created]


async def prune(ctx: Context, history: Sequence[ControllerRevision], used: Iterable[str], limit: int | None) -> None:
    """Delete the oldest revisions that nothing uses, beyond `limit` of those."""
    names = set(used)
    unused = [revision for revision in history if revision.metadata.name not in names]
    for revision in unused[: max(0, len(unused) - (10 if limit is None else limit))]:
        await ctx.delete(revision)
