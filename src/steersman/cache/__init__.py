"""What the cluster looks like, kept current in memory: reflectors, stores of bytes, indexes, shared informers.

A reader gets immutable values as of now, without a request; a controller gets every change, in order. The cache
writes nothing to the cluster, and never holds state that the cluster does not.
"""

from steersman.cache.cache import Cache, CacheClient, NotCachedError, SyncTimeoutError
from steersman.cache.entry import Change, ChangeType, Entry, UndecodableError
from steersman.cache.hygiene import settle
from steersman.cache.index import IndexFunction
from steersman.cache.informer import Handler, Informer, Scope
from steersman.cache.listwatch import ListWatch, RawListWatch
from steersman.cache.store import Transform

__all__ = [
    "Cache",
    "CacheClient",
    "Change",
    "ChangeType",
    "Entry",
    "Handler",
    "IndexFunction",
    "Informer",
    "ListWatch",
    "NotCachedError",
    "RawListWatch",
    "Scope",
    "SyncTimeoutError",
    "Transform",
    "UndecodableError",
    "settle",
]
