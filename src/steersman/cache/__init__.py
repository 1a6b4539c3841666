"""The cache: shared informers that hold the cluster's objects in memory, with stores, indexes and change handlers.

Reads return immutable values and send no request. Handlers receive every change, in order. The cache never writes to
the cluster and holds no state that the cluster does not have.
"""

from steersman.cache.cache import Cache, CacheClient, NotCachedError, SyncTimeoutError
from steersman.cache.entry import Change, ChangeType, Entry, UndecodableError
from steersman.cache.index import IndexFunction
from steersman.cache.informer import Handler, Informer, Scope
from steersman.cache.listwatch import ListWatch, RawListWatch
from steersman.cache.memory import NO_MEMORY_POLICY, MemoryPolicy, ProcessMemory
from steersman.cache.store import Transform

__all__ = [
    "NO_MEMORY_POLICY",
    "Cache",
    "CacheClient",
    "Change",
    "ChangeType",
    "Entry",
    "Handler",
    "IndexFunction",
    "Informer",
    "ListWatch",
    "MemoryPolicy",
    "NotCachedError",
    "ProcessMemory",
    "RawListWatch",
    "Scope",
    "SyncTimeoutError",
    "Transform",
    "UndecodableError",
]
