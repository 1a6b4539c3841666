"""Manifest files: read YAML and JSON files with Kubernetes objects, and apply them in an order that works.

`read` and `parse` return `Manifest` objects that know their file and line. `steersman.manifest_files.apply` applies
them to any API server.
"""

from steersman.manifest_files.files import Manifest, ManifestError, parse, read

__all__ = ["Manifest", "ManifestError", "parse", "read"]
