"""MySQL (XtraDB): the Secret for internal TLS is never created after a crash, so that Pods never start.

The bug is that of MongoDB; here the Pods mount both Secrets, and the StatefulSet is created after them.
"""

from __future__ import annotations

import base64

from steersman import Context, ObjectMeta, Operator, Resource
from steersman.k8s import Secret, StatefulSet
from steersman.testing.explore import ScenarioRun

from .bug import Bug
from .workloads import stateful_set

GROUP = "xtradb-1043.steersman.dev"
DATA = {"tls.crt": base64.b64encode(b"certificate").decode()}


class XtraDB(Resource, group=GROUP, version="v1", plural="xtradbs"):
    """A MySQL cluster."""


def operator(correct: bool) -> Operator:
    operator = Operator("xtradb-1043")

    @operator.controller(owns=[Secret, StatefulSet])
    async def reconcile(cluster: XtraDB, ctx: Context) -> None:
        name = str(cluster.metadata.name)
        known = ctx.get(Secret, f"{name}-ssl")
        if known is None or correct:
            await ctx.apply(Secret(metadata=ObjectMeta(name=f"{name}-ssl"), data=DATA))
            await ctx.apply(Secret(metadata=ObjectMeta(name=f"{name}-ssl-internal"), data=DATA))
        await ctx.apply(stateful_set(name, 1))

    return operator


async def scenario(run: ScenarioRun) -> None:
    await run.apply({"apiVersion": f"{GROUP}/v1", "kind": "XtraDB", "metadata": {"name": "a"}})
    await run.settled()


BUG = Bug(
    issue="https://github.com/percona/percona-xtradb-cluster-operator/pull/1043",
    reported_by="Sieve",
    operator=operator,
    scenario=scenario,
    perturb=("crash",),
)
