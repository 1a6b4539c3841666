"""Where objects are: revisions, bytes, the log of what happened, and who is told. In memory, and in SQLite on request.

One revision counts all writes of the cluster, as etcd does. Storage knows nothing of kinds, versions or HTTP.
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
