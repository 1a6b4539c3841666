"""Field management: the owners of fields, and server-side apply."""

from steersman_cluster.fields.apply import LAST_APPLIED, apply, unconvertible
from steersman_cluster.fields.managers import invalid_entries
from steersman_cluster.fields.merge import atomic_paths, merge, validate
from steersman_cluster.fields.scale import from_scale, to_scale
from steersman_cluster.fields.sets import EMPTY, FieldSet
from steersman_cluster.fields.tracking import Versions, settle, track

__all__ = [
    "EMPTY",
    "LAST_APPLIED",
    "FieldSet",
    "Versions",
    "apply",
    "atomic_paths",
    "from_scale",
    "invalid_entries",
    "merge",
    "settle",
    "to_scale",
    "track",
    "unconvertible",
    "validate",
]
