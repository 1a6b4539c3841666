"""Custom resources: the kind CustomResourceDefinition, and the strategies of the kinds that it defines.

`DefinitionStrategy` is the strategy of the definition, and `CustomStrategy` that of one version of a defined kind.
`lifecycle` accepts names and sets the conditions; `convert` calls conversion webhooks.
"""

from steersman_cluster.crd.conversion import convert, needs_webhook
from steersman_cluster.crd.definition import DefinitionStrategy
from steersman_cluster.crd.lifecycle import FINALIZER, accept, deleting, deletion_progress, established
from steersman_cluster.crd.openapi import published_schema, published_schemas, second_version
from steersman_cluster.crd.scale import ScalePaths
from steersman_cluster.crd.strategy import CustomStrategy

__all__ = [
    "FINALIZER",
    "CustomStrategy",
    "DefinitionStrategy",
    "ScalePaths",
    "accept",
    "convert",
    "deleting",
    "deletion_progress",
    "established",
    "needs_webhook",
    "published_schema",
    "published_schemas",
    "second_version",
]
