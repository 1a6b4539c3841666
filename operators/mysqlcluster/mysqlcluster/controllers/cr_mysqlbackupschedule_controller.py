"""Creates a MySQLBackupInstance at each time of a MySQLBackupSchedule."""

from datetime import datetime

from steersman import Context, ObjectMeta, Result, ready_when, replace
from steersman.client import AlreadyExists

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance, MySQLBackupInstanceSpec
from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule
from mysqlcluster.backup.lifecycle import KEEP, surplus
from mysqlcluster.backup.schedules import ScheduleError, due, name_at
from mysqlcluster.manager import operator

POLL_SECONDS = 5.0

operator.permit("create delete", MySQLBackupInstance)


@operator.controller(reads=[MySQLBackupInstance])
async def reconcile(schedule: MySQLBackupSchedule, ctx: Context) -> Result:
    """Create the backup that is due; its name contains its time, so that it is created only once."""
    status = replace(schedule.status, observed_generation=schedule.metadata.generation)
    made = [each for each in ctx.list(MySQLBackupInstance) if each.spec.schedule == schedule.metadata.name]
    for backup in surplus(made, KEEP):
        await ctx.delete(backup)
        ctx.log.info("backup_deleted", backup=backup.metadata.name, reason=f"{KEEP} are kept")
    last = status.last_scheduled
    since = datetime.fromisoformat(last) if last else schedule.metadata.creation_timestamp or ctx.now()
    try:
        time = due("spec.time", schedule.spec.time, since, ctx.now())
    except ScheduleError as problem:
        failed = ready_when(False, reason="InvalidSchedule", message=str(problem))
        return Result(status=replace(status, conditions=failed))
    status = replace(status, conditions=ready_when(True, reason="Scheduled", message=""))
    if time is None:
        return Result(status=status, requeue_after=POLL_SECONDS)
    name = name_at(schedule.metadata.name, time)
    instance = MySQLBackupInstance(
        metadata=ObjectMeta(name=name, namespace=schedule.metadata.namespace),
        spec=MySQLBackupInstanceSpec(schedule=schedule.metadata.name, cluster=schedule.spec.cluster),
    )
    try:
        await ctx.create(instance, owned=False)
        ctx.log.info("backup_scheduled", backup=name, reason=f"the schedule is {schedule.spec.time}")
    except AlreadyExists:
        ctx.log.debug("backup_exists", backup=name)
    text = time.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Result(status=replace(status, last_backup=name, last_scheduled=text), requeue_after=POLL_SECONDS)
