"""The desired state of a cluster: one internal model of both API groups, with all defaults filled in.

Values that the schemas cannot refuse raise `SpecError`, with the field and the solution.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from steersman import EMPTY, Key, Quantity, key_of

from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import (
    Autoscaling,
    BackupPolicy,
    FailoverPolicy,
    MetricsPolicy,
    MySQLCluster,
    RejoinPolicy,
    ReplicationPolicy,
    RestorePoint,
    UpdatePolicy,
)
from mysqlcluster.versions import series

__all__ = [
    "AnyCluster",
    "AutoGrow",
    "Desired",
    "SpecError",
    "Storage",
    "check_supported",
    "desired",
    "parse_storage",
    "parse_version",
]

AnyCluster = MySQLCluster | CompactCluster
Flavor = Literal["mysql", "mariadb"]

LATEST: Mapping[Flavor, str] = {"mysql": "9.7", "mariadb": "11.8"}
"""The series of a cluster whose spec names neither a version nor an image with one."""
MARIADB_FROM = (10, 0)
"""Versions from this one on are versions of MariaDB; versions of MySQL are lower."""
SUPPORTED_FROM: Mapping[Flavor, tuple[int, int]] = {"mariadb": (10, 11), "mysql": (9, 7)}
"""The first supported version of each flavor."""
NEAREST: Mapping[tuple[int, int], str] = {(8, 0): "9.7", (8, 4): "9.7"}
"""The offered series for a series of MySQL that the operator has no image of."""
_OFFICIAL_IMAGE = re.compile(r"(?:docker\.io/)?(?:library/)?(mysql|mariadb)(?::.*)?")
"""Images of the database vendors, which do not contain the agent."""
_VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}")
_TAG = re.compile(r"v?([0-9]{1,3}(?:\.[0-9]{1,3}){0,2})(?:[-+].*)?")


class SpecError(ValueError):
    """A spec contains an invalid value; `field` is its path."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field}: {value!r}: {problem}")
        self.field = field
        self.value = value
        self.problem = problem


class AutoGrow(NamedTuple):
    """When and by how much the volumes grow."""

    enabled: bool = False
    threshold_percent: int = 80
    step_percent: int = 25
    max: Quantity | None = None


class Storage(NamedTuple):
    """The volume of each member."""

    size: Quantity = Quantity("1Gi")
    class_name: str = ""
    auto_grow: AutoGrow = AutoGrow()


class Desired(NamedTuple):
    """The desired state of a cluster."""

    key: Key
    size: int
    flavor: Flavor
    version: str
    image: str
    port: int
    secret: str
    storage: Storage
    config: Mapping[str, str] = EMPTY
    from_backup: str = ""
    restore: RestorePoint | None = None
    failover: FailoverPolicy = FailoverPolicy()
    replication: ReplicationPolicy = ReplicationPolicy()
    rejoin: RejoinPolicy = RejoinPolicy()
    update: UpdatePolicy = UpdatePolicy()
    autoscaling: Autoscaling = Autoscaling()
    backup: BackupPolicy | None = None
    metrics: MetricsPolicy = MetricsPolicy()
    paused: bool = False
    substituted: str = ""
    """What the operator runs instead of the version or image of the spec; empty if it runs that one."""

    def ack_count(self, size: int) -> int:
        """Return the acknowledgements that a commit waits for in a cluster of `size` members.

        MariaDB waits for at most one, for any number of replicas.
        """
        wanted = size // 2 if self.replication.ack_count is None else self.replication.ack_count
        most = size - 1 if self.flavor == "mysql" else min(size - 1, 1)
        return max(0, min(wanted, most))


def desired(cluster: AnyCluster) -> Desired:
    """Return the internal model of a cluster of either API group.

    Raises:
        SpecError: A value is invalid, such as a storage size that is not a quantity.
    """
    if isinstance(cluster, CompactCluster):
        return _compact(cluster)
    spec = cluster.spec
    server = _server(parse_version(spec.version), spec.image, spec.flavor)
    return Desired(
        key=key_of(cluster),
        size=spec.size,
        flavor=server.flavor,
        version=server.version,
        image=server.image,
        substituted=server.substituted,
        port=spec.port,
        secret=spec.secret or f"{cluster.metadata.name}-accounts",
        storage=parse_storage(spec.storage),
        config=spec.config,
        from_backup=spec.from_backup,
        restore=spec.restore,
        failover=spec.failover,
        replication=spec.replication,
        rejoin=spec.rejoin,
        update=spec.update,
        autoscaling=spec.autoscaling,
        backup=spec.backup,
        metrics=spec.metrics,
        paused=spec.paused,
    )


def _compact(cluster: CompactCluster) -> Desired:
    spec = cluster.spec
    server = _server("", spec.image, None)
    return Desired(
        key=key_of(cluster),
        size=spec.replicas,
        flavor=server.flavor,
        version=server.version,
        image=server.image,
        substituted=server.substituted,
        port=spec.port,
        secret=spec.secret or f"{cluster.metadata.name}-accounts",
        storage=parse_storage(spec.storage),
        from_backup=spec.from_backup,
    )


class Server(NamedTuple):
    """The server of a cluster."""

    flavor: Flavor
    version: str
    image: str
    substituted: str = ""


def _server(asked: str, image: str, flavor: Flavor | None) -> Server:
    """Return the server for a version, an image and a flavor, of which each may be missing.

    An image of a database vendor has no agent: the operator's own image of that version replaces it. A series that the
    operator has no image of is replaced by the nearest one.
    """
    version = asked or version_of_image(image)
    flavor = flavor or flavor_of(version, image)
    if image and not _OFFICIAL_IMAGE.fullmatch(image):
        return Server(flavor, version or LATEST[flavor], image)
    wanted = version or LATEST[flavor]
    offered = NEAREST.get(series(wanted), wanted) if flavor == "mysql" else wanted
    own = f"steersman/{flavor}:{offered}"
    notes: list[str] = []
    if image:
        notes.append(f"spec.image {image} has no agent")
    if offered != wanted:
        notes.append(f"{flavor} {wanted} is not offered")
    return Server(flavor, offered, own, f"{' and '.join(notes)}: the cluster runs {own}" if notes else "")


def flavor_of(version: str, image: str) -> Flavor:
    """Return the flavor of a version and an image name; MySQL if neither identifies one."""
    if "mariadb" in image:
        return "mariadb"
    if "mysql" in image or not version:
        return "mysql"
    return "mariadb" if version_numbers(version) >= MARIADB_FROM else "mysql"


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version for comparison, such as `(11, 8, 9)` of `11.8.9-MariaDB-log`."""
    found = _VERSION.match(version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def check_supported(want: Desired) -> None:
    """Refuse what this version of the operator cannot run.

    Raises:
        SpecError: The version is too old.
    """
    first = SUPPORTED_FROM[want.flavor]
    if version_numbers(want.version) < first:
        problem = f'{want.flavor} is supported from {first[0]}.{first[1]} on: set "{LATEST[want.flavor]}"'
        raise SpecError("spec.version", want.version, problem)


def parse_version(value: Any) -> str:
    """Return a version as text: `8`, `8.0` and `"8.0"` are the series 8.0; empty for None."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise SpecError("spec.version", value, 'must be a number or a string, such as "11.8"')
    text = format(value, "g") if isinstance(value, float) else str(value)
    if not _VERSION.fullmatch(text):
        raise SpecError("spec.version", value, 'must be one to three numbers, such as "11.8"')
    return text if "." in text else f"{text}.0"


def version_of_image(image: str) -> str:
    """Return the version in the tag of an image, or an empty string."""
    _, colon, tag = image.partition("@")[0].rpartition(":")
    found = _TAG.fullmatch(tag) if colon and "/" not in tag else None
    return parse_version(found[1]) if found else ""


def parse_storage(value: Any) -> Storage:
    """Return the storage for a size, or for an object with `size`, `className` and `autoGrow`."""
    if value is None:
        return Storage()
    if isinstance(value, str | int) and not isinstance(value, bool):
        return Storage(_quantity("spec.storage", value))
    fields = _fields("spec.storage", value, ("size", "className", "autoGrow"))
    class_name = fields.get("className", "")
    if not isinstance(class_name, str):
        raise SpecError("spec.storage.className", class_name, "must be the name of a StorageClass")
    grow = _auto_grow(fields.get("autoGrow"))
    return Storage(_quantity("spec.storage.size", fields.get("size", "1Gi")), class_name, grow)


def _auto_grow(value: Any) -> AutoGrow:
    if value is None:
        return AutoGrow()
    path = "spec.storage.autoGrow"
    fields = _fields(path, value, ("enabled", "thresholdPercent", "stepPercent", "max"))
    enabled = fields.get("enabled", False)
    if not isinstance(enabled, bool):
        raise SpecError(f"{path}.enabled", enabled, "must be true or false")
    threshold = _percent(f"{path}.thresholdPercent", fields.get("thresholdPercent", 80), 1, 99)
    step = _percent(f"{path}.stepPercent", fields.get("stepPercent", 25), 1, 1000)
    most = _quantity(f"{path}.max", fields["max"]) if "max" in fields else None
    return AutoGrow(enabled, threshold, step, most)


def _fields(path: str, value: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SpecError(path, value, f"must be a quantity such as 1Gi, or an object with {', '.join(known)}")
    if unknown := sorted(str(name) for name in value if name not in known):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        raise SpecError(f"{path}.{unknown[0]}", "", f"is not a field; the fields are {', '.join(known)}")
    return value  # pyright: ignore[reportUnknownVariableType]


def _percent(path: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise SpecError(path, value, f"must be a whole number from {least} to {most}")
    return value


def _quantity(path: str, value: Any) -> Quantity:
    try:
        quantity = Quantity(str(value))
    except ValueError:
        raise SpecError(path, value, "must be a quantity such as 1Gi") from None
    if quantity <= Quantity("0"):
        raise SpecError(path, value, "must be greater than 0")
    return quantity
