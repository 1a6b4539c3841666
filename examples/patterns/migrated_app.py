"""Steps in order: the Job that migrates the database has to complete before the new image is rolled out.

No step is remembered: each reconcile looks at what exists, does the next thing, and returns. A change of the Job starts
the next reconcile.
"""

from steersman import (
    Conditions,
    Context,
    LabelSelector,
    Model,
    ObjectMeta,
    Operator,
    Resource,
    TerminalError,
    is_true,
    ready_when,
)  # fmt: skip
from steersman.k8s import Container, Deployment, DeploymentSpec, Job, JobSpec, PodSpec, PodTemplateSpec


class MigratedAppSpec(Model):
    version: str


class MigratedAppStatus(Model):
    conditions: Conditions = ()


class MigratedApp(Resource, group="patterns.example.com", version="v1"):
    """An application whose database is migrated before each roll-out."""

    spec: MigratedAppSpec
    status: MigratedAppStatus = MigratedAppStatus()


operator = Operator("migrated-apps")


def template(app: MigratedApp, container: Container, restart: str) -> PodTemplateSpec:
    labels = {"app": app.metadata.name}
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=(container,), restart_policy=restart)
    )


@operator.controller(owns=[Job, Deployment])
async def reconcile(app: MigratedApp, ctx: Context) -> MigratedAppStatus:
    name, version = app.metadata.name, app.spec.version
    migrate = Container(name="migrate", image=f"migrate:{version}")
    spec = JobSpec(template=template(app, migrate, "Never"), backoff_limit=0)
    job = await ctx.apply(Job(metadata=ObjectMeta(name=f"{name}-{version}"), spec=spec))
    if is_true(job.status.conditions, "Failed"):
        raise TerminalError(f"the migration to {version} has failed: see the Pods of Job {job.metadata.name}")
    if not is_true(job.status.conditions, "Complete"):
        return MigratedAppStatus(conditions=ready_when(False, reason="Migrating", message=f"to {version}"))
    rollout = DeploymentSpec(
        selector=LabelSelector(match_labels={"app": name}),
        template=template(app, Container(name="app", image=f"app:{version}"), "Always"),
    )
    deployment = await ctx.apply(Deployment(metadata=ObjectMeta(name=name), spec=rollout))
    ready = is_true(deployment.status.conditions, "Available")
    return MigratedAppStatus(conditions=ready_when(ready, message=version))
