"""A fake server that also serves the metadata form, as a kube-apiserver does; and a cache over it."""

import json
import random
from contextlib import asynccontextmanager

from cache_fakeserver import FakeServer, widget_view

from steersman.cache import Cache
from steersman.cache.lines import LineSplitter
from steersman.models import metadata_of

WIDGET = widget_view()
METADATA = metadata_of(WIDGET)


def partial(obj):
    """An object as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def packed(obj):
    return json.dumps(obj, separators=(",", ":"), ensure_ascii=False).encode()


class MetadataForm:
    """Serves what `server` has, in the metadata form."""

    def __init__(self, server):
        self.server = server

    async def list_page(self, **asked):
        page = json.loads(await self.server.list_page(**asked))
        page["items"] = [partial(o) for o in page["items"]]
        return packed({**page, "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"})

    @asynccontextmanager
    async def watch(self, **asked):
        async with self.server.watch(**asked) as chunks:
            yield self._events(chunks)

    async def _events(self, chunks):
        splitter = LineSplitter()
        async for chunk in chunks:
            for line in map(bytes, splitter.feed(chunk)):
                try:
                    event = json.loads(line)
                except ValueError:
                    yield line
                    continue
                if event["type"] != "ERROR":
                    event["object"] = partial(event["object"])
                yield packed(event) + b"\n"


class Forms:
    """Where a cache's informers get their bytes; `asked` says in which forms, in order."""

    def __init__(self, server, *, knows_metadata=True):
        self.server = server
        self.asked = []
        self.knows_metadata = knows_metadata

    def __call__(self, view, _scope):
        self.asked.append(view.form)
        return MetadataForm(self.server) if view.form == "metadata" and self.knows_metadata else self.server


@asynccontextmanager
async def watched(server=None, *, kind=METADATA, start=True, seed=1, knows_metadata=True, **declaration):
    """A cache over a server; yields the server, the forms it is asked for, the cache, its informer and all changes."""
    server = server if server is not None else FakeServer()
    forms = Forms(server, knows_metadata=knows_metadata)
    cache = Cache(None, sources=forms, rng=random.Random(seed))
    informer = cache.informer(kind, **declaration)
    changes = []
    informer.add_handler(changes.append)
    if start:
        await cache.start()
        await cache.wait_synced(600)
    try:
        yield server, forms, cache, informer, changes
    finally:
        await cache.close()
