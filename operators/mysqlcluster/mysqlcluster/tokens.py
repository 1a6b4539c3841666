"""The token of the agents in the Secret of a cluster, and its changes."""

from __future__ import annotations

import base64

from steersman import Context, MergePatch
from steersman.controller import controller_of
from steersman.k8s import Secret, StatefulSet

from mysqlcluster import names
from mysqlcluster.backup.client import ArchiverClient
from mysqlcluster.desired import AnyCluster, Desired
from mysqlcluster.observation import Observation
from mysqlcluster.token_rotation import ROTATE_TOKEN, is_rotating, next_change

__all__ = ["rotate_token"]


async def rotate_token(cluster: AnyCluster, want: Desired, seen: Observation, authority: str, ctx: Context) -> None:
    """Write the next change of the token, if there is one and the operator owns the Secret."""
    secret = ctx.get(Secret, want.secret)
    request = cluster.metadata.annotations.get(ROTATE_TOKEN, "")
    if secret is None or not (request or is_rotating(secret.data)):
        return
    owner = controller_of(secret)
    if owner is None or owner.uid != cluster.metadata.uid:
        return  # the user changes the keys step by step
    revisions = [each.token_revision for each in seen.members]
    if is_rotating(secret.data) and ctx.get(StatefulSet, names.archiver(want.key.name)) is not None:
        archiver = await ArchiverClient(want.key, secret.data["agent-token"].decode(), authority).state()
        revisions.append(archiver.token_revision if archiver is not None else "")
    change = next_change(secret.data, secret.metadata.annotations, request, revisions, ctx.now())
    if change is None:
        return
    data = {key: base64.b64encode(value).decode() if value else None for key, value in change.data.items()}
    metadata = {"resourceVersion": secret.metadata.resource_version, "annotations": dict(change.annotations)}
    await ctx.patch(secret, MergePatch({"metadata": metadata, "data": data}))
    ctx.log.info("agent_token_changed", secret=want.secret, reason=change.reason)
    if change.completed:
        ctx.event(
            "AgentTokenRotated", "all agents use the new token; the former one is no longer valid", action="Rotate"
        )
