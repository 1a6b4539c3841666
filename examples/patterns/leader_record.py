"""Work of the leader alone: it records itself in a ConfigMap when it takes over, and when it hands over.

Controllers, timers and the functions of `on_startup` and `on_shutdown` run only in the replica that holds the lease.
The other replicas keep their caches up to date and serve webhooks. A replica that was killed runs no `on_shutdown`.
"""

import os

from steersman import Context, ObjectMeta, Operator
from steersman.k8s import ConfigMap

operator = Operator("leader-record")
operator.permit("create get patch", ConfigMap)


async def record(state: str, ctx: Context) -> None:
    metadata = ObjectMeta(name="leader-record", namespace=os.environ.get("LEADER_NAMESPACE", "default"))
    await ctx.apply(ConfigMap(metadata=metadata, data={"state": state, "host": os.uname().nodename}), wait=False)


@operator.on_startup
async def take_over(ctx: Context) -> None:
    await record("leads", ctx)


@operator.on_shutdown
async def hand_over(ctx: Context) -> None:
    await record("ended", ctx)


@operator.timer(30.0)
async def heartbeat(ctx: Context) -> None:
    ctx.log.info("leader_is_alive")
