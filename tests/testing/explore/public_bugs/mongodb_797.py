"""MongoDB: the Secret for internal TLS is never created if the operator crashes after it has created the other one.

Both Secrets are created if the first one does not exist.
"""

from __future__ import annotations

import base64

from steersman import Context, ObjectMeta, Operator, Resource
from steersman.k8s import Secret
from steersman.testing.explore import ScenarioRun

from .bug import Bug

GROUP = "mongodb-797.steersman.dev"
DATA = {"tls.crt": base64.b64encode(b"certificate").decode()}


class MongoDB(Resource, group=GROUP, version="v1", plural="mongodbs"):
    """A MongoDB cluster."""


def operator(correct: bool) -> Operator:
    operator = Operator("mongodb-797")

    @operator.controller(owns=[Secret])
    async def reconcile(cluster: MongoDB, ctx: Context) -> None:
        names = [f"{cluster.metadata.name}-ssl", f"{cluster.metadata.name}-ssl-internal"]
        if not correct and await ctx.fetch(Secret, names[0]) is not None:
            return
        for name in names:
            if await ctx.fetch(Secret, name) is None:
                await ctx.create(Secret(metadata=ObjectMeta(name=name), data=DATA))

    return operator


async def scenario(run: ScenarioRun) -> None:
    await run.apply({"apiVersion": f"{GROUP}/v1", "kind": "MongoDB", "metadata": {"name": "a"}})
    await run.settled()


BUG = Bug(
    issue="https://github.com/percona/percona-server-mongodb-operator/pull/797",
    reported_by="Sieve",
    operator=operator,
    scenario=scenario,
    perturb=("crash",),
)
