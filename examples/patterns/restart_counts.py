"""Metrics of one's own: restarts of containers by namespace, on the same `/metrics` as Steersman's."""

from steersman import Context, Operator
from steersman.k8s import Pod
from steersman.metrics import counter, gauge

RESTARTS = counter("patterns_container_restarts_total", "Restarts of containers.", ["namespace"])
CRASHING = gauge("patterns_crashing_pods", "Pods with a container that waits after a crash.", ["namespace"])

operator = Operator("restart-counts")
seen: dict[str, int] = {}  # counts since the start of this process: a counter may begin at zero again


@operator.controller(reads=[Pod])
async def reconcile(pod: Pod, ctx: Context) -> None:
    namespace = pod.metadata.namespace
    restarts = sum(status.restart_count for status in pod.status.container_statuses)
    before = seen.get(pod.metadata.uid or "", restarts)
    seen[pod.metadata.uid or ""] = restarts
    RESTARTS.labels(namespace).inc(max(0, restarts - before))
    CRASHING.labels(namespace).set(sum(map(crashes, ctx.list(Pod, namespace=namespace))))


def crashes(pod: Pod) -> bool:
    waiting = [s.state.waiting for s in pod.status.container_statuses if s.state and s.state.waiting]
    return any(state.reason == "CrashLoopBackOff" for state in waiting)
