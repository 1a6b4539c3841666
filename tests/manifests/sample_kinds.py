"""Kinds whose specs require something: texts with a pattern, unions, groups of fields, lists of a least length."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from steersman import Model, Resource
from steersman.k8s import CronJobSpec, PodTemplateSpec
from steersman.models import Duration, IntOrString, Quantity
from steersman.models.markers import (
    AtLeastOneOf,
    ExactlyOneOf,
    Format,
    Ge,
    Gt,
    Le,
    ListMap,
    MaxLength,
    MinItems,
    MinLength,
    MinProperties,
    MultipleOf,
    Pattern,
    Set,
)

GROUP = "samples.example.com"


class Mode(StrEnum):
    FAST = "Fast"


class S3(Model, tag_field="type", tag="S3"):
    bucket: str


class Disk(Model, tag_field="type", tag="Disk"):
    path: Annotated[str, MinLength(1)]


class Source(Model):
    __rules__ = (ExactlyOneOf("git", "http_url"), AtLeastOneOf("user", "anonymous"))

    git: str | None = None
    http_url: str | None = None
    user: str | None = None
    anonymous: bool | None = None


class PortSpec(Model):
    name: Annotated[str, MinLength(1), MaxLength(15)]
    number: Annotated[int, Ge(1), Le(65535)]


class TextsSpec(Model):
    schedule: Annotated[str, Pattern(r"^(\S+\s+){4}\S+$")]
    label: Annotated[str, Pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), MaxLength(5)]
    image: Annotated[str, Pattern(r"^[a-z0-9./-]+:[a-z0-9.]+$")]
    version: Annotated[str, Pattern(r"^v\d+\.\d+\.\d+$")]
    every: Annotated[str, Pattern(r"^[0-9]+(s|m|h)$")]
    url: Annotated[str, Pattern(r"^https?://")]
    upper: Annotated[str, Pattern(r"^[A-Z_]+$")]
    number: Annotated[str, Pattern(r"^\d+$")]
    share: Annotated[str, Pattern(r"^\d+%$")]
    host: Annotated[str, Pattern(r"^([a-z0-9-]+\.)+[a-z]+$")]
    path: Annotated[str, Pattern(r"^/.*")]
    address: Annotated[str, Format("ipv4")]
    long: Annotated[str, MinLength(20)]
    mode: Mode
    kind: Literal["A", "B"]
    at: datetime
    id: UUID
    data: bytes


class NumbersSpec(Model):
    share: Annotated[float, Format("double")]
    size: Annotated[int, MultipleOf(7), Gt(7)]
    below: Annotated[int, Le(-3)]
    limit: Quantity
    wait: Duration
    port: IntOrString


class ShapesSpec(Model):
    source: Source
    backend: S3 | Disk
    ports: Annotated[tuple[PortSpec, ...], ListMap("name"), MinItems(2)]
    names: Annotated[tuple[str, ...], Set, MinItems(3)]
    labels: Annotated[dict[str, str], MinProperties(1)]
    template: PodTemplateSpec
    job: CronJobSpec
    anything: Any


class Texts(Resource, group=GROUP, version="v1"):
    spec: TextsSpec


class Numbers(Resource, group=GROUP, version="v1"):
    spec: NumbersSpec


class Shapes(Resource, group=GROUP, version="v1"):
    spec: ShapesSpec


ALL = (Texts, Numbers, Shapes)
