"""Events: a Deployment with an image that has no fixed version gets a Warning, which `kubectl describe` shows."""

from steersman import Context, Operator
from steersman.k8s import Deployment
from steersman.predicates import generation_changed

operator = Operator("untagged-images")


@operator.controller(where=generation_changed)
async def reconcile(deployment: Deployment, ctx: Context) -> None:
    for container in deployment.spec.template.spec.containers:
        tag = (container.image or "").rpartition("/")[2].partition(":")[2]
        if tag in ("", "latest"):
            ctx.event("UntaggedImage", f"container {container.name}: {container.image} can change", type="Warning")
