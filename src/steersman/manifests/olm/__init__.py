"""Operator Lifecycle Manager: bundles, file-based catalogs, and validation of bundles.

See olm.operatorframework.io. All functions work offline; images are not inspected.
"""

from steersman.manifests.olm.bundle import BUNDLE_FOLDERS, bundle_files, catalog_text
from steersman.manifests.olm.csv import Listing
from steersman.manifests.olm.validate import Finding, read_bundle, validate

__all__ = [
    "BUNDLE_FOLDERS",
    "Finding",
    "Listing",
    "bundle_files",
    "catalog_text",
    "read_bundle",
    "validate",
]
