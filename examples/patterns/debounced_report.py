"""Debounce: many changes in a short time lead to one reconcile, here a report about a namespace.

`debounce=1.0` waits until a second has passed without a change, at most ten seconds.
"""

from collections import Counter

from steersman import Context, Key, MergePatch, Operator, PartialObjectMetadata, Watch, metadata_of
from steersman.k8s import Namespace, Pod

PHASES = "patterns.example.com/phases"

operator = Operator("debounced-report")
operator.permit("patch", Namespace)


def namespace_of(pod: Pod) -> Key:
    return Key("", pod.metadata.namespace)


@operator.controller(
    kind=metadata_of(Namespace),
    debounce=1.0,
    watches=[Watch(Pod, to=namespace_of)],
)
async def reconcile(namespace: PartialObjectMetadata, ctx: Context) -> None:
    name = namespace.metadata.name
    phases = Counter(pod.status.phase for pod in ctx.list(Pod, namespace=name))
    report = ",".join(f"{phase}={count}" for phase, count in sorted(phases.items()))
    if namespace.metadata.annotations.get(PHASES, "") != report:
        await ctx.patch(Namespace, MergePatch({"metadata": {"annotations": {PHASES: report or None}}}), name=name)
