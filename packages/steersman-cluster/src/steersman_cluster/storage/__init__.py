"""Storage of objects: revisions, bytes, the history of changes and its listeners; in memory or in SQLite.

One revision counts all writes of the cluster, as in etcd. Storage is independent of kinds, versions and HTTP.
"""

from steersman_cluster.storage.database import Database, DataError
from steersman_cluster.storage.items import Event, EventType, GroupResource, Item
from steersman_cluster.storage.store import UNCACHED, CompactedError, Storage

__all__ = [
    "UNCACHED",
    "CompactedError",
    "DataError",
    "Database",
    "Event",
    "EventType",
    "GroupResource",
    "Item",
    "Storage",
]
