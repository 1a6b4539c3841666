"""One kind that uses everything a schema can say, with good and bad values for each of its fields."""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from steersman import Column, Conditions, Model, ObjectMeta, Resource, Scale
from steersman.k8s import ConfigMap, PodTemplateSpec, ResourceRequirements
from steersman.models import EMPTY, Duration, IntOrString, Quantity
from steersman.models.markers import (
    CEL,
    AtLeastOneOf,
    AtMostOneOf,
    Atomic,
    Embedded,
    ExactlyOneOf,
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
    PreserveUnknown,
    RawExtension,
    Schemaless,
    Selectable,
    Set,
)


class Mode(StrEnum):
    FAST = "Fast"
    SAFE = "Safe"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Port(Model):
    """A port that is served."""

    name: Annotated[str, MinLength(1), MaxLength(15)]
    """How it is called."""
    number: Annotated[int, Ge(1), Le(65535)] = 80


class Window(Model):
    __rules__ = (CEL("self.low <= self.high", message="low must not exceed high", field_path="low"),)

    low: int = 0
    high: int = 10


class Source(Model):
    __rules__ = (ExactlyOneOf("git", "http_url"), AtMostOneOf("token", "user"), AtLeastOneOf("user", "anonymous"))

    git: str | None = None
    http_url: str | None = None
    token: str | None = None
    user: str | None = None
    anonymous: bool | None = None


class S3(Model, tag_field="type", tag="S3"):
    bucket: str
    region: str = "eu"


class Disk(Model, tag_field="type", tag="Disk"):
    size: Quantity
    region: str = "eu"


class Loose(Model):
    known: int | None = None


class Pair(Model):
    a: str = "x"
    b: str = "y"


class BroadSpec(Model):
    ranged: Annotated[int, Ge(0), Le(100)] = 1
    open: Annotated[int, Gt(0), Lt(10)] | None = None
    stepped: Annotated[int, MultipleOf(5)] | None = None
    small: Annotated[int, Format("int32")] | None = None
    rough: Annotated[float, Format("double")] | None = None
    sized: Annotated[str, MinLength(2), MaxLength(4)] | None = None
    matched: Annotated[str, Pattern("^[a-z]+$")] | None = None
    host: Annotated[str, Format("ipv4")] | None = None
    mode: Mode = Mode.SAFE
    level: Level | None = None
    choice: Literal["a", "b"] = "a"
    flag: bool = False
    amount: Quantity | None = None
    share: IntOrString = "25%"
    wait: Duration = Duration("1m30s")
    since: datetime | None = None
    data: Annotated[bytes, MaxLength(6)] | None = None
    id: UUID | None = None
    raw: RawExtension | None = None
    anything: Any = None
    loose: Annotated[Loose, PreserveUnknown] | None = None
    unchecked: Annotated[Mapping[str, int], Schemaless] = EMPTY
    embedded: Embedded[ConfigMap] | None = None
    tags: Annotated[tuple[Annotated[str, MinLength(1)], ...], Set, MaxItems(3)] = ()
    unique: frozenset[int] = frozenset()
    ports: Annotated[tuple[Port, ...], ListMap("name"), MinItems(1), MaxItems(5)] = (Port(name="http"),)
    order: Annotated[tuple[str, ...], Atomic] = ()
    labels: Annotated[Mapping[str, Annotated[str, MaxLength(5)]], MinProperties(1), MaxProperties(2), Atomic] | None = (
        None
    )
    matrix: tuple[tuple[Annotated[int, Le(9)], ...], ...] = ()
    window: Window = Window()
    source: Source | None = None
    store: S3 | Disk | None = None
    absent: Nullable[Annotated[str, MinLength(1)]] = None
    fixed: Annotated[str, Immutable] = "f"
    once: Annotated[str, Immutable, Selectable] | None = None
    even: Annotated[int, CEL("self % 2 == 0", message="must be even", reason="FieldValueForbidden")] | None = None
    grows: (
        Annotated[
            int, CEL("!oldSelf.hasValue() || self >= oldSelf.value()", message="must grow", optional_old_self=True)
        ]
        | None
    ) = None
    pair: Annotated[Pair, Atomic] = Pair(a="z")
    template: PodTemplateSpec | None = None
    resources: ResourceRequirements | None = None
    meta: ObjectMeta | None = None
    namespace: Annotated[str, Immutable] | None = None


class BroadStatus(Model):
    ready: int = 0
    selector: str = ""
    conditions: Conditions = ()
    last: datetime | None = None


class Broad(
    Resource,
    group="broad.example.com",
    version="v1",
    short_names=("br",),
    categories=("all",),
    scale=Scale(spec="spec.ranged", status="status.ready", selector="status.selector"),
    columns=(
        Column("Mode", "spec.mode", priority=1, description="how"),
        Column("Last", "status.last"),
        Column("Ready", 'status.conditions[?(@.type=="Ready")].status'),
        Column("Port", "spec.ports[0].number"),
        Column("Team", "metadata.labels['team']"),
    ),
):
    """A kind with everything."""

    spec: BroadSpec = BroadSpec()
    status: BroadStatus = BroadStatus()


TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 80}]}]}}
UUID_TEXT = "9b2f1c5e-0b1a-4c8e-9b53-2f3a6f2d1c11"
CASES: dict[str, tuple[list[Any], list[Any]]] = {
    "ranged": ([0, 100], [-1, 101, "1"]),
    "open": ([1, 9], [0, 10]),
    "stepped": ([10], [11]),
    "small": ([2**31 - 1], [2**31]),
    "rough": ([1.5, 2], ["1.5"]),
    "sized": (["ab", "abcd"], ["a", "abcde"]),
    "matched": (["abc"], ["a1", ""]),
    "host": (["1.2.3.4"], ["1.2.3"]),
    "mode": (["Fast"], ["Slow"]),
    "level": ([1, 2], [3]),
    "choice": (["b"], ["c"]),
    "flag": ([True], ["true"]),
    "amount": ([1, "1.5Gi", "100m", "1e3"], ["1.5gi", "x", 1.5]),
    "share": ([1, "10%"], [1.5, True]),
    "wait": (["5s", "1h30m", "0", "-2ms"], ["5", "1 day", "5 s"]),
    "since": (["2026-01-01T00:00:00Z"], ["yesterday"]),
    "data": (["AAAA", "AAAAAAAA"], ["AAAAAAAAAAAA", "?"]),
    "id": ([UUID_TEXT], ["1234"]),
    "raw": ([{"a": [1]}], ["x"]),
    "anything": ([1, "x", [1], {"a": 1}], []),
    "loose": ([{"known": 1, "other": 2}], [{"known": "x"}]),
    "unchecked": ([{"a": 1}, {"a": "b"}], []),
    "embedded": (
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}],
        [{"kind": "ConfigMap"}, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a/b"}}],
    ),
    "tags": ([["a", "b"]], [["a", "a"], [""], ["a", "b", "c", "d"]]),
    "unique": ([[1, 2]], [[1, 1]]),
    "ports": (
        [[{"name": "a"}, {"name": "b", "number": 1}]],
        [[], [{"number": 1}], [{"name": "a"}, {"name": "a"}], [{"name": "a", "number": 0}]],
    ),
    "order": ([["a", "a"]], [[1]]),
    "labels": ([{"a": "b"}], [{}, {"a": "bbbbbb"}, {"a": "1", "b": "2", "c": "3"}]),
    "matrix": ([[[1], [2, 9]]], [[[10]], [1]]),
    "window": ([{"low": 5}, {}], [{"low": 11}, {"low": "1"}]),
    "source": (
        [{"git": "x", "anonymous": True}, {"httpUrl": "x", "user": "u"}],
        [
            {"anonymous": True},
            {"git": "x", "httpUrl": "y", "anonymous": True},
            {"git": "x"},
            {"git": "x", "user": "u", "token": "t"},
        ],
    ),
    "store": (
        [{"type": "S3", "bucket": "b", "region": "us"}, {"type": "Disk", "size": "1Gi"}],
        [{"type": "Tape"}, {"bucket": "b"}, {"type": "S3"}, {"type": "S3", "bucket": "b", "size": 1}],
    ),
    "absent": ([None, "x"], [""]),
    "even": ([2], [3]),
    "grows": ([2], ["x"]),
    "pair": ([{"a": "1"}], [{"a": 1}]),
    "template": ([TEMPLATE], [{"spec": {"containers": [{"image": "b"}]}}, {"spec": {"nodeName": 1}}]),
    "resources": ([{"limits": {"cpu": "100m", "memory": 1}}], [{"limits": {"cpu": "x"}}]),
    "meta": ([{"labels": {"a": "b"}, "name": "x"}], [{"labels": {"a": 1}}]),
}


class Old(Model):
    size: int = 1


class V1(Resource, group="conv.example.com", version="v1", kind="Conv", deprecated="use v2", storage=False):
    spec: Old = Old()


class V2(Resource, group="conv.example.com", version="v2", kind="Conv", columns=(Column("Size", "spec.size"),)):
    spec: Old = Old()
