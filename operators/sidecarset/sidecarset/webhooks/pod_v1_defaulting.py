"""Adds the containers of every SidecarSet that matches to a Pod that is created."""

from steersman import Admission, WebhookOptions
from steersman.k8s import Pod
from steersman.logs import get_logger

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet
from sidecarset.injection import SKIPPED, injected
from sidecarset.manager import operator

log = get_logger("sidecarset")

_ELSEWHERE = {
    "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted(SKIPPED)}]
}


@operator.mutator(
    on="create",
    reads=[SidecarSet],
    options=WebhookOptions(namespace_selector=_ELSEWHERE, reinvocation="IfNeeded"),
)
async def inject(pod: Pod, ctx: Admission) -> Pod:
    changed = injected(pod, ctx.list(SidecarSet), ctx.namespace)
    before = {container.name for container in pod.spec.containers}
    added = [container.name for container in changed.spec.containers if container.name not in before]
    if added and not ctx.dry_run:
        name = pod.metadata.name or f"{pod.metadata.generate_name}*"
        log.info("sidecars_injected", pod=name, namespace=ctx.namespace, containers=added, reason="pod_created")
    return changed
