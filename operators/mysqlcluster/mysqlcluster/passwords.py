"""The Secret with the passwords of a cluster, and their rotation on the members."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TypeVar

from steersman import Context, MergePatch, replace
from steersman.controller import controller_of
from steersman.k8s import Secret

from mysqlcluster import children, credentials
from mysqlcluster.actions import CreateAccounts
from mysqlcluster.agents import Agents, perform
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster, PasswordStatus
from mysqlcluster.desired import Desired
from mysqlcluster.observation import Observation
from mysqlcluster.rotation import RETIRE, ROTATE, next_step
from mysqlcluster.status import state_of
from mysqlcluster.storing import store_status

__all__ = ["passwords_of", "rotate"]

C = TypeVar("C", MySQLCluster, CompactCluster)


async def passwords_of(cluster: C, want: Desired, ctx: Context) -> Mapping[str, bytes]:
    """Return the content of the Secret, which is created if it is missing and changed if a rotation is requested."""
    found = ctx.get(Secret, want.secret)
    request = cluster.metadata.annotations.get(ROTATE, "")
    annotations = {ROTATE: request} if request else {}
    if found is None:
        data = credentials.generated()
        made = children.secret(want, data)
        await ctx.create(replace(made, metadata=replace(made.metadata, annotations=annotations)))
        ctx.log.info("secret_created", secret=want.secret, reason="missing")
        return data
    if not request or found.metadata.annotations.get(ROTATE, "") == request:
        return found.data
    owner = controller_of(found)
    if owner is None or owner.uid != cluster.metadata.uid:
        text = f"the operator does not own the Secret {want.secret}: change its passwords to rotate them"
        ctx.event("RotationRefused", text, type="Warning", action="Rotate")
        return found.data
    used = cluster.status.passwords
    if used is None or used.revision != credentials.revision(found.data):
        return found.data  # a member would lose a password that another one still uses
    # The passwords and the request change in one write, so that a request is performed once.
    data = {**found.data, **credentials.generated_passwords()}
    changed = MergePatch(
        {
            "metadata": {"resourceVersion": found.metadata.resource_version, "annotations": annotations},
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
    )
    await ctx.patch(found, changed)
    ctx.log.info("passwords_generated", secret=want.secret, reason=f"the annotation {ROTATE} is {request!r}")
    return data


async def rotate(cluster: C, revision: str, seen: Observation, agents: Agents, ctx: Context) -> C:
    """Perform the next step towards the passwords of the Secret; return the cluster with its stored status."""
    state = state_of(cluster.status)
    before = cluster.status.passwords or PasswordStatus()
    retire = cluster.metadata.annotations.get(RETIRE, "")
    step = next_step(before, revision, state, seen, ctx.now(), retire)
    if step.action is not None:
        for problem in await perform(agents, (step.action,)):
            ctx.log.warning("action_failed", epoch=state.epoch, error=problem)
            return cluster
        kind = "accounts_applied" if isinstance(step.action, CreateAccounts) else "replica_reconnected"
        ctx.log.info(kind, member=step.action.member, revision=revision, reason="the Secret is new or has changed")
    if step.status == before:
        return cluster
    cluster = await store_status(ctx, cluster, replace(cluster.status, passwords=step.status))
    if step.completed:
        text = "all members use the new passwords; the former ones remain valid for clients"
        ctx.event("PasswordsRotated", text, action="Rotate")
    elif before.former_valid and not step.status.former_valid:
        ctx.event("PasswordsRetired", "the former passwords are no longer valid", action="Rotate")
    return cluster
