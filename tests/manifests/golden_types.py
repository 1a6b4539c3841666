"""The types of `golden/go`, in Python: the published samples of the field, and one kind that uses every marker."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from steersman import Column, Model, Resource, Scale
from steersman.k8s.batch_v1 import JobTemplateSpec
from steersman.k8s.core_v1 import EnvVar, ObjectReference, ResourceRequirements
from steersman.models import EMPTY, Condition, Duration, Dynamic, IntOrString, LabelSelector, Quantity
from steersman.models.markers import (
    CEL,
    Atomic,
    Embedded,
    Format,
    Ge,
    Gt,
    Immutable,
    Le,
    ListMap,
    Lt,
    MaxItems,
    MaxLength,
    MaxProperties,
    MinItems,
    MinLength,
    MinProperties,
    MultipleOf,
    Nullable,
    Pattern,
    RawExtension,
    Selectable,
    Set,
)

Policy = Literal["Allow", "Forbid", "Replace"]
Int32 = Annotated[int, Format("int32")]


class CronJobSpec(Model):
    schedule: Annotated[str, MinLength(0)]
    starting_deadline_seconds: Annotated[int, Ge(0)] | None = None
    concurrency_policy: Policy = "Allow"
    suspend: bool | None = None
    job_template: JobTemplateSpec
    successful_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    failed_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None


class CronJobStatus(Model):
    active: Annotated[tuple[ObjectReference, ...], Atomic, MinItems(1), MaxItems(10)] = ()
    last_schedule_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class CronJob(Resource, group="batch.tutorial.kubebuilder.io", version="v1"):
    spec: CronJobSpec
    status: CronJobStatus | None = None


class CronSchedule(Model):
    minute: str | None = None
    hour: str | None = None
    day_of_month: str | None = None
    month: str | None = None
    day_of_week: str | None = None


class CronJobV2Spec(Model):
    schedule: CronSchedule
    starting_deadline_seconds: Annotated[int, Ge(0)] | None = None
    concurrency_policy: Policy = "Allow"
    suspend: bool | None = None
    job_template: JobTemplateSpec
    successful_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    failed_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None


class CronJobV2(
    Resource, group="batch.tutorial.kubebuilder.io", version="v2", kind="CronJob", plural="cronjobs", storage=False
):
    spec: CronJobV2Spec
    status: CronJobStatus | None = None


class MemcachedSpec(Model):
    size: Annotated[Int32, Ge(1), Le(3)] | None = None


class ConditionsStatus(Model):
    conditions: tuple[Condition, ...] = ()


class Memcached(Resource, group="cache.example.com", version="v1alpha1"):
    spec: MemcachedSpec
    status: ConditionsStatus | None = None


class CaptainSpec(Model):
    foo: str | None = None


class Captain(Resource, group="crew.testproject.org", version="v1"):
    spec: CaptainSpec
    status: ConditionsStatus | None = None


class Admiral(Resource, group="crew.testproject.org", version="v1", plural="admirales", namespaced=False):
    spec: CaptainSpec
    status: ConditionsStatus | None = None


class Colour(StrEnum):
    RED = "Red"
    GREEN = "Green"


class Port(Model):
    name: str
    number: Annotated[int, Ge(1), Le(65535)]


class Range(Model):
    __rules__ = (
        CEL(
            "self.low <= self.high",
            message="low must not be above high",
            reason="FieldValueForbidden",
            field_path="low",
        ),
    )

    low: int = 0
    high: int = 10


class Pair(Model):
    left: str
    right: str


class WideSpec(Model):
    step: Annotated[int, Gt(0), Lt(100), MultipleOf(5)]
    word: Annotated[str, MinLength(1), MaxLength(8), Pattern("^[a-z]+$")]
    id: Annotated[str, Format("uuid")] | None = None
    colour: Colour = Colour.RED
    ports: Annotated[tuple[Port, ...], ListMap("name"), MinItems(1), MaxItems(4)] = ()
    names: Annotated[tuple[Annotated[str, MaxLength(5)], ...], Set] = ()
    args: Annotated[tuple[str, ...], Atomic] = ()
    labels: Annotated[Mapping[str, str], Atomic, MinProperties(1), MaxProperties(3)] = EMPTY
    pair: Annotated[Pair, Atomic] | None = None
    range: Range = Range()
    maybe: Nullable[str] = None
    fixed: Annotated[str, Immutable]
    size: Quantity | None = None
    wait: Duration | None = None
    until: datetime | None = None
    blob: bytes | None = None
    target: IntOrString | None = None
    raw: RawExtension | None = None
    any: Any = None
    object: Embedded[Dynamic] | None = None
    selector: LabelSelector | None = None
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements | None = None
    ratio: Annotated[float, Format("double")] | None = None
    replicas: Int32 = 1
    zone: Annotated[str, Selectable] | None = None


class WideStatus(Model):
    phase: str | None = None
    replicas: Int32 | None = None
    selector: str | None = None


class Wide(
    Resource,
    group="wide.example.com",
    version="v1",
    short_names=("wd", "wid"),
    categories=("all",),
    scale=Scale(spec="spec.replicas", status="status.replicas", selector="status.selector"),
    columns=(Column("Phase", "status.phase", description="Where it is", priority=1),),
    deprecated="use v2",
):
    spec: WideSpec
    status: WideStatus | None = None


KINDS = (CronJob, CronJobV2, Memcached, Captain, Admiral, Wide)
