"""Custom resources: their definitions, and the strategies that make a definition a served API.

`resource_types` turns an accepted CustomResourceDefinition into what the API server registers; `DefinitionStrategy`
is the definition's own kind; `lifecycle` claims names and establishes; `convert` asks conversion webhooks.
"""

from steersman_cluster.crd.conversion import convert, needs_webhook
from steersman_cluster.crd.definition import DefinitionStrategy
from steersman_cluster.crd.lifecycle import FINALIZER, accept, deleting, deletion_progress, established
from steersman_cluster.crd.openapi import published_schema, published_schemas, second_version
from steersman_cluster.crd.resources import resource_types, storage_version, strategies
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
    "resource_types",
    "second_version",
    "storage_version",
    "strategies",
]
