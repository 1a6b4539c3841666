"""Reconciles every Controller: runs its members and reports the leader."""

import contextlib

from steersman import Context, Result, Watch, to_label
from steersman.k8s import ConfigMap, Job, Pod, Service, StatefulSet
from steersman.predicates import generation_changed

from rocketmq import quorum
from rocketmq.access import servers
from rocketmq.api.v1.controller_types import Controller
from rocketmq.finalize import finalize
from rocketmq.manager import operator
from rocketmq.remoting import RemotingError

LOOK_SECONDS = 5.0
"""Time until the operator reads the leader again."""


@operator.controller(
    owns=[ConfigMap, Job, Service, StatefulSet],
    watches=[Watch(Pod, to=to_label(quorum.LABEL))],
    where=generation_changed,
    terminating=True,
)
async def reconcile(controller: Controller, ctx: Context) -> Result:
    """Perform the stage Finalize, or apply the children of the stages PreConfig and Sync, then report the status."""
    ended = await finalize(controller, controller.spec.controller_image, quorum.labels_for(controller), ctx)
    if ended is not None:
        return ended
    await ctx.apply(quorum.pre_config(controller))
    for child in quorum.sync(controller):
        await ctx.apply(child)
    leader = await _leader(controller)
    after = quorum.status(controller, ctx.list(Pod, labels=quorum.labels_for(controller)), leader, ctx.now())
    if after.leader != controller.status.leader:
        ctx.log.info("controller_leader_changed", before=controller.status.leader, after=after.leader)
        ctx.event("LeaderChanged", f"the leading controller is {after.leader or 'unknown'}")
    return Result(requeue_after=LOOK_SECONDS, status=after)


async def _leader(controller: Controller) -> str:
    """Return the address of the leader; empty if there is none."""
    for address in quorum.stable_addresses(controller):
        with contextlib.suppress(RemotingError):
            async with servers().controller(address) as admin:
                if (await admin.metadata()).is_leader:
                    return address
    return ""
