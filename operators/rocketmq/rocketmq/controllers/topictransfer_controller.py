"""Performs the phases of every TopicTransfer, one per reconcile."""

from steersman import Context, Result, key_of, replace
from steersman.predicates import generation_changed

from rocketmq import nameservers
from rocketmq.access import servers
from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.api.v1.topictransfer_types import TopicTransfer
from rocketmq.manager import operator
from rocketmq.metrics import METRICS
from rocketmq.remoting import RemotingError
from rocketmq.transfer_work import TransferWork
from rocketmq.transfers import Outcome, advance, is_finished, phase_of

NEXT_SECONDS = 0.1
WAIT_SECONDS = 2.0
"""Time until the work of a waiting phase is repeated."""


@operator.controller(reads=[NameService], where=generation_changed)
async def reconcile(transfer: TopicTransfer, ctx: Context) -> Result:
    """Perform the work of one phase, store the next phase, and requeue."""
    if is_finished(transfer):
        return Result(status=replace(transfer.status, observed_generation=transfer.metadata.generation))
    phase, now = phase_of(transfer), ctx.now()
    METRICS.record_transfer(key_of(transfer), phase)
    service = ctx.get(NameService, transfer.spec.name_service or transfer.spec.source_cluster)
    addresses = nameservers.stable_addresses(service) if service is not None else ()
    try:
        found = await TransferWork(transfer, servers(), addresses).perform(phase, now)
    except RemotingError as problem:
        found = Outcome(str(problem))
        ctx.log.warning("transfer_phase_failed", phase=phase, error=str(problem))
    after = advance(transfer, phase, found, now)
    if after.phase != transfer.status.phase:
        ctx.log.info("transfer_phase", before=transfer.status.phase, after=after.phase, topic=transfer.spec.topic)
        ctx.event("PhaseChanged", f"topic {transfer.spec.topic}: {after.phase}")
    return Result(requeue_after=NEXT_SECONDS if after.phase != phase else WAIT_SECONDS, status=after)
