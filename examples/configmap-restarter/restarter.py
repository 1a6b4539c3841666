"""Restarts Pods when a ConfigMap changes that says which: `steersman run restarter:operator`.

kubectl annotate configmap settings restarter.example.com/pods=app=web
"""

import hashlib

from steersman import Context, MergePatch, Operator
from steersman.k8s import ConfigMap, Pod

PODS, SEEN, SINCE = (f"restarter.example.com/{name}" for name in ("pods", "seen", "since"))

operator = Operator("configmap-restarter")
operator.permit("patch", ConfigMap)
operator.permit("list", Pod)
operator.permit("create", Pod, subresource="eviction")


@operator.controller(where=lambda held: PODS in held.metadata.annotations)
async def reconcile(held: ConfigMap, ctx: Context) -> None:
    notes = held.metadata.annotations
    if PODS not in notes:
        return
    data = repr((sorted(held.data.items()), sorted(held.binary_data.items())))
    digest = hashlib.sha256(data.encode()).hexdigest()
    if notes.get(SEEN) != digest:  # a ConfigMap without a stored hash has not changed
        since = f"{ctx.now():%Y-%m-%dT%H:%M:%SZ}" if SEEN in notes else None
        await ctx.patch(held, MergePatch({"metadata": {"annotations": {SEEN: digest, SINCE: since}}}))
        return  # the patch triggers this controller, which then restarts older Pods
    for pod in await ctx.fetch_list(Pod, labels=notes[PODS]):
        started = pod.metadata.creation_timestamp
        if started and f"{started:%Y-%m-%dT%H:%M:%SZ}" < notes.get(SINCE, ""):
            await ctx.evict(pod)  # a refusal is an exception: tried again later
            ctx.event("Restarted", f"{pod.metadata.name}: {held.metadata.name} has changed")
