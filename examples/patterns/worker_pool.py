"""Scale subresource: `kubectl scale workerpool` and a HorizontalPodAutoscaler change the number of Pods."""

from steersman import Column, Context, Model, ObjectMeta, Operator, Resource, Scale
from steersman.k8s import Container, Pod, PodSpec

POOL = "patterns.example.com/pool"


class WorkerPoolSpec(Model):
    replicas: int = 1
    image: str


class WorkerPoolStatus(Model):
    replicas: int = 0
    selector: str = ""


class WorkerPool(
    Resource,
    group="patterns.example.com",
    version="v1",
    scale=Scale(spec="spec.replicas", status="status.replicas", selector="status.selector"),
    columns=(Column("Wanted", "spec.replicas"), Column("Running", "status.replicas")),
):
    """A number of equal Pods."""

    spec: WorkerPoolSpec
    status: WorkerPoolStatus = WorkerPoolStatus()


operator = Operator("worker-pools")


@operator.controller(owns=[Pod])
async def reconcile(pool: WorkerPool, ctx: Context) -> WorkerPoolStatus:
    labels = {POOL: pool.metadata.name}
    wanted = {f"{pool.metadata.name}-{number}" for number in range(pool.spec.replicas)}
    for pod in ctx.list(Pod, owned=True):
        if pod.metadata.name not in wanted:
            await ctx.delete(pod)
    for name in sorted(wanted):
        containers = (Container(name="worker", image=pool.spec.image),)
        await ctx.apply(Pod(metadata=ObjectMeta(name=name, labels=labels), spec=PodSpec(containers=containers)))
    running = sum(pod.status.phase == "Running" for pod in ctx.list(Pod, owned=True))
    return WorkerPoolStatus(replicas=running, selector=f"{POOL}={pool.metadata.name}")
