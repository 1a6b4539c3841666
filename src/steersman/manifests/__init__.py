"""Manifests from declarations: CRDs from typed classes, RBAC and all that ships an operator, as stable YAML.

Pure but for `write`: values in, plain data and text out. It never talks to a server, and never runs an operator.
"""

from steersman.manifests.crd import MAX_BYTES, Check, Conversion, definitions, schema_of
from steersman.manifests.errors import ManifestError
from steersman.manifests.kinds import classes_of
from steersman.manifests.packaging import Package
from steersman.manifests.parts import everything
from steersman.manifests.rbac import merged, rules_for
from steersman.manifests.roles import rbac, user_roles
from steersman.manifests.tree import Changes, compare, config_files, crds, package_files, write
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
