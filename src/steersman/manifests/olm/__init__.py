"""For the Operator Lifecycle Manager: bundles, catalogs in files, and the checks that are made of bundles.

See olm.operatorframework.io. Everything is offline; images are named, and never looked at.
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
