"""Timer: once a minute, delete Pods that have been finished for a quarter of an hour."""

from datetime import timedelta

from steersman import ALL_NAMESPACES, Context, Operator
from steersman.k8s import Pod

KEPT = timedelta(minutes=15)

operator = Operator("finished-pods")
operator.permit("delete", Pod)


@operator.timer(60.0, reads=[Pod])
async def remove_finished_pods(ctx: Context) -> None:
    for pod in ctx.list(Pod, namespace=ALL_NAMESPACES):
        created = pod.metadata.creation_timestamp
        if pod.status.phase in ("Succeeded", "Failed") and created and ctx.now() - created > KEPT:
            await ctx.delete(pod)
            ctx.log.info("pod_removed", pod=f"{pod.metadata.namespace}/{pod.metadata.name}")
