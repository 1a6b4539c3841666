"""Reconciles every Broker."""

from steersman import Context, Result, Watch, to_label
from steersman.k8s import ConfigMap, Pod, PodDisruptionBudget, Service, StatefulSet
from steersman.predicates import generation_changed

from rocketmq.api.v1.broker_types import Broker
from rocketmq.api.v1.controller_types import Controller
from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.brokers.names import LABEL
from rocketmq.brokers.reconciler import reconcile_broker
from rocketmq.manager import operator


@operator.controller(
    owns=[ConfigMap, PodDisruptionBudget, Service, StatefulSet],
    reads=[Controller, NameService],
    watches=[Watch(Pod, to=to_label(LABEL))],
    where=generation_changed,
    workers=8,
)
async def reconcile(broker: Broker, ctx: Context) -> Result:
    """Reconcile on every change of the spec and of the children, and at intervals."""
    return await reconcile_broker(broker, ctx)
