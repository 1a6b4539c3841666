"""Field management: who owns which field, and server-side apply."""

from steersman.devcluster.fields.apply import LAST_APPLIED, apply, unconvertible
from steersman.devcluster.fields.managers import invalid_entries
from steersman.devcluster.fields.merge import atomic_paths, merge, validate
from steersman.devcluster.fields.scale import from_scale, to_scale
from steersman.devcluster.fields.sets import EMPTY, FieldSet
from steersman.devcluster.fields.tracking import Versions, settle, track

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
