"""Reconciles every Broker."""

from steersman import Context, Result, Watch, key_of, to_label
from steersman.k8s import ConfigMap, Job, Pod, PodDisruptionBudget, Service, StatefulSet
from steersman.predicates import generation_changed

from rocketmq.access import servers
from rocketmq.api.v1.broker_types import Broker
from rocketmq.api.v1.controller_types import Controller
from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.brokers.load import read_load
from rocketmq.brokers.names import LABEL, host_of_pod
from rocketmq.brokers.reconciler import reconcile_broker
from rocketmq.manager import operator
from rocketmq.metrics import METRICS
from rocketmq.remoting import RemotingError

LOAD_SECONDS = 15.0
"""Time between two reads of consumer groups and topics."""


@operator.controller(
    owns=[ConfigMap, Job, PodDisruptionBudget, Service, StatefulSet],
    reads=[Controller, NameService],
    watches=[Watch(Pod, to=to_label(LABEL))],
    where=generation_changed,
    workers=8,
    terminating=True,
)
async def reconcile(broker: Broker, ctx: Context) -> Result:
    """Reconcile on every change of the spec and of the children, and at intervals."""
    return await reconcile_broker(broker, ctx)


@operator.controller(name="broker_load", where=generation_changed)
async def read_broker_load(broker: Broker, ctx: Context) -> Result:
    """Read the lag of consumer groups and the ends of topics at intervals, for the metrics."""
    masters = [host_of_pod(broker, each.master) for each in broker.status.groups if each.master]
    try:
        lag, ends = await read_load(servers(), [f"{host}:{broker.spec.ports.listen}" for host in masters])
        METRICS.record_load(key_of(broker), lag, ends)
    except RemotingError as problem:
        ctx.log.debug("load_unknown", error=str(problem))
    return Result(requeue_after=LOAD_SECONDS)
