"""Keeps a Deployment of `size` replicas of `image` for every HelloApp, and reports its state."""

from collections.abc import Mapping

from steersman import Context, LabelSelector, ObjectMeta, Result, Watch, ready_when, replace, to_label
from steersman.client import ApiError
from steersman.k8s import Container, Deployment, DeploymentSpec, Pod, PodSpec, PodTemplateSpec

from helloapp.api.v1.helloapp_types import HelloApp, HelloAppStatus
from helloapp.manager import operator

APP = "apps.anupam.com/helloapp"
"""The label with the name of a Pod's HelloApp."""
REFUSED_RETRY_SECONDS = 30.0
"""Seconds until the retry of a refused Deployment: a quota may have been raised."""


def labels_for(app: HelloApp) -> Mapping[str, str]:
    """Return the labels that select the Pods of an application, and no others."""
    return {APP: app.metadata.name}


def deployment_for(app: HelloApp) -> Deployment:
    """Return the complete Deployment of an application."""
    labels = labels_for(app)
    return Deployment(
        metadata=ObjectMeta(name=app.metadata.name, namespace=app.metadata.namespace, labels=labels),
        spec=DeploymentSpec(
            replicas=app.spec.size,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels),
                spec=PodSpec(containers=(Container(name="app", image=app.spec.image),)),
            ),
        ),
    )


@operator.controller(owns=[Deployment], watches=[Watch(Pod, to=to_label(APP))])
async def reconcile(app: HelloApp, ctx: Context) -> HelloAppStatus | Result:
    before = ctx.get(Deployment, app.metadata.name)
    try:
        deployment = await ctx.apply(deployment_for(app))
    except ApiError as problem:
        if not problem.is_refusal:
            raise
        return refused(app, ctx, str(problem))
    log_write(app, ctx, before, deployment)
    pods = ctx.list(Pod, labels=labels_for(app))
    ready = (deployment.status and deployment.status.ready_replicas) or 0
    return HelloAppStatus(
        observed_generation=app.metadata.generation,
        ready_replicas=ready,
        pods=tuple(sorted(pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None)),
        selector=f"{APP}={app.metadata.name}",
        conditions=ready_when(ready == app.spec.size, message=f"{ready} of {app.spec.size} replicas are ready"),
    )


def log_write(app: HelloApp, ctx: Context, before: Deployment | None, after: Deployment) -> None:
    """Write one log line if the Deployment was created, scaled or updated, with the reason."""
    facts = {"deployment": after.metadata.name, "replicas": app.spec.size, "image": app.spec.image}
    if before is None:
        ctx.log.info("deployment_created", reason="missing", **facts)
    elif before.metadata.generation != after.metadata.generation:
        same_spec = app.status.observed_generation == app.metadata.generation
        scaled = before.spec.replicas != app.spec.size
        event = "deployment_scaled" if scaled else "deployment_updated"
        ctx.log.info(
            event, reason="drift" if same_spec else "spec_changed", replicas_before=before.spec.replicas, **facts
        )


def refused(app: HelloApp, ctx: Context, message: str) -> Result:
    """Report that the API server refuses the Deployment (a quota, an admission policy), and retry later."""
    ctx.event("DeploymentRefused", message, type="Warning")
    ctx.log.warning("deployment_refused", deployment=app.metadata.name, error=message)
    conditions = ready_when(False, reason="DeploymentRefused", message=message)
    status = replace(app.status, observed_generation=app.metadata.generation, conditions=conditions)
    return Result(requeue_after=REFUSED_RETRY_SECONDS, status=status)
