"""Manifest files: read YAML and JSON files with Kubernetes objects, and apply them in an order that works.

`read` and `parse` return `Manifest` objects that know their file and line. `load` applies them to any API
server.
"""

from steersman.manifest_files.apply import Outcome, load
from steersman.manifest_files.files import Manifest, ManifestError, parse, read

__all__ = ["Manifest", "ManifestError", "Outcome", "load", "parse", "read"]
