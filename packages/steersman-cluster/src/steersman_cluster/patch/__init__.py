"""The three patches of the API server: JSON patch, JSON merge patch, strategic merge patch.

Pure functions from a document and a patch to a new document; the document is never changed, and the answer may share
parts with it and with the patch. All refusals are `APIError`s with the API server's texts.
"""

from steersman_cluster.patch.go_format import go_text, undecodable
from steersman_cluster.patch.json_patch import FailedTestError, json_patch, unknown_fields
from steersman_cluster.patch.merge_patch import merge_patch
from steersman_cluster.patch.strategic import strategic

__all__ = ["FailedTestError", "go_text", "json_patch", "merge_patch", "strategic", "undecodable", "unknown_fields"]
