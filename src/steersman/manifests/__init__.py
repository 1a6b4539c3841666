"""Manifests from declarations: CRDs from typed classes, RBAC and all documents that install an operator, as YAML.

All functions but `write` are pure: they take values and return plain data or text. They contact no server and run no
operator.
"""

from steersman.manifests.config_directory import Changes, compare, config_files, crds, package_files, write
from steersman.manifests.crd import MAX_BYTES, Check, Conversion, definitions, schema_of
from steersman.manifests.errors import ManifestError
from steersman.manifests.kinds import classes_of
from steersman.manifests.packaging import Package
from steersman.manifests.parts import everything
from steersman.manifests.permissions.roles import rbac, user_roles
from steersman.manifests.permissions.rules import merged, rules_for
from steersman.manifests.yaml import to_yaml

__all__ = [
    "MAX_BYTES",
    "Changes",
    "Check",
    "Conversion",
    "ManifestError",
    "Package",
    "classes_of",
    "compare",
    "config_files",
    "crds",
    "definitions",
    "everything",
    "merged",
    "package_files",
    "rbac",
    "rules_for",
    "schema_of",
    "to_yaml",
    "user_roles",
    "write",
]
