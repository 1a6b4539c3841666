"""Gets, lists and watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from steersman_cluster.api.bodies import INTERNAL
from steersman_cluster.api.interfaces import ResourceType, Server
from steersman_cluster.api.requests.messages import Response
from steersman_cluster.api.requests.negotiation import PROTOBUF, YAML, Form
from steersman_cluster.api.requests.options import ListOptions
from steersman_cluster.api.requests.paging import PageExpiredError, key_of, read_token, token, too_large
from steersman_cluster.api.tables import metadata_for, table_of
from steersman_cluster.api.views import body_of, fields_of, item_of_list, object_of, partial
from steersman_cluster.api.watches import Watch
from steersman_cluster.errors import bad_request, expired, not_acceptable, not_found
from steersman_cluster.objects import Object
from steersman_cluster.storage import CompactedError, Item, Storage

__all__ = ["Reads", "StorageReader", "present"]

_encode: Final = msgspec.json.Encoder().encode
_BOOKMARK_EVERY: Final = 60.0
_SHORTEST, _LONGEST = 1800.0, 3600.0
_NS_SEP: Final = "\0"


def present(obj: Object, form: Form, status: int = 200) -> Response:
    """An object or list in the media type that was asked for."""
    if form.media == PROTOBUF:
        from steersman_cluster.protobuf import encode, supports

        if supports(str(obj.get("apiVersion")), str(obj.get("kind"))):
            return Response(status, encode(obj), PROTOBUF)
    if form.media == YAML:
        import yaml

        return Response(status, yaml.safe_dump(obj, sort_keys=True).encode(), YAML)
    return Response(status, _encode(obj) + b"\n")


class Reads:
    """Reads for one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._storage = server.storage

    # One object.

    def get(self, resource: ResourceType, namespace: str, name: str, form: Form, include: str) -> Response:
        """One object. Raises 404."""
        item = self._storage.get(resource.stored_at, namespace, name)
        if item is None:
            raise not_found(resource.group, resource.plural, name)
        if form.plain:
            return Response(200, body_of(resource, item) + b"\n")
        return self.shaped(resource, object_of(resource, item), form, include)

    def shaped(self, resource: ResourceType, obj: Object, form: Form, include: str = "", status: int = 200) -> Response:
        """An object in the form that was asked for."""
        if form.shape == "Table":
            obj = table_of(resource, [obj], metadata_for(obj), self._server.now(), include or "Metadata")
            obj = _in_version(obj, form)
        elif form.shape == "PartialObjectMetadata":
            obj = {**partial(obj), "apiVersion": f"meta.k8s.io/{form.version}"}
        elif form.shape:
            found = _go_type(resource, resource.kind)
            raise not_acceptable(f"you requested {form.shape}, but the requested object is not a list ({found})")
        return present(obj, form, status)

    # Lists.

    def list(self, resource: ResourceType, namespace: str, options: ListOptions, form: Form, include: str) -> Response:
        """A list, or a page of one. Raises `APIError`."""
        items, metadata = self.page(resource, namespace, options)
        return self.listed(resource, items, metadata, form, include)

    def listed(
        self, resource: ResourceType, items: list[Item], metadata: Object, form: Form, include: str = ""
    ) -> Response:
        """Items as a list in the form that was asked for."""
        if form.plain:
            parts = b",".join([item_of_list(resource, item) for item in items])
            head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
                resource.list_kind.encode(),
                resource.api_version.encode(),
                _encode(metadata),
            )
            return Response(200, b"%s%s]}\n" % (head, parts))
        objects = [object_of(resource, item) for item in items]
        version = f"meta.k8s.io/{form.version}"
        if form.shape == "Table":
            table = table_of(resource, objects, metadata, self._server.now(), include or "Metadata")
            return present(_in_version(table, form), form)
        if form.shape == "PartialObjectMetadata":
            found = _go_type(resource, resource.list_kind)
            raise not_acceptable(f"you requested PartialObjectMetadata, but the requested object is a list ({found})")
        if form.shape:
            shown = [{**partial(obj), "apiVersion": version} for obj in objects]
            body = {"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": metadata, "items": shown}
            return present(body, form)
        if resource.definition is None:
            for obj in objects:
                del obj["kind"], obj["apiVersion"]
        body = {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": objects,
        }
        return present(body, form)

    async def prepare(self, resource: ResourceType, namespace: str, name: str = "") -> None:
        """Convert the objects of the next read, if a webhook converts their kind. Raises `APIError` (500)."""
        if name:
            item = self._storage.get(resource.stored_at, namespace, name)
            items = [] if item is None else [item]
        else:
            items = self._storage.items(resource.stored_at, namespace)
        await self._server.conversions.prepare(resource, items)

    def page(self, resource: ResourceType, namespace: str, options: ListOptions) -> tuple[list[Item], Object]:
        """The items of a list, or of a page of one, and the list's metadata. Raises `APIError`."""
        self.check_fields(resource, options)
        revision, start = self._list_position(options)
        try:
            items = self._storage.items_at(resource.stored_at, namespace, revision)
        except CompactedError:
            if not options.continue_:
                raise expired("The resourceVersion for the provided list is too old.") from None
            raise PageExpiredError(token(-1, start)) from None
        if start:
            items = [item for item in items if key_of(item) >= start]
        metadata: Object = {"resourceVersion": str(revision)}
        limit = options.limit
        if limit <= 0 or (options.version == "0" and not options.continue_):
            return self.selected(resource, items, options), metadata
        return self._cut(resource, items, options, metadata, revision), metadata

    def _list_position(self, options: ListOptions) -> tuple[int, str]:
        """At which revision a list is, and the first key of a page."""
        now = self._storage.revision
        if options.continue_:
            revision, start = read_token(options.continue_)
            return (revision if revision >= 0 else now), start
        asked = int(options.version or 0)
        if options.as_of is not None:
            return min(max(options.as_of, asked), now), ""
        if not asked:
            return now, ""
        if asked > now:
            raise too_large(asked, now)
        return (asked if options.match == "Exact" or (options.limit and not options.match) else now), ""

    def _cut(
        self, resource: ResourceType, items: list[Item], options: ListOptions, metadata: Object, revision: int
    ) -> list[Item]:
        """The first items, as many as are asked for; how to go on stands in `metadata` then."""
        limit, matches = options.limit, self._matcher(resource, options)
        if matches is None:
            if len(items) > limit:
                metadata["continue"] = token(revision, key_of(items[limit]))
                metadata["remainingItemCount"] = len(items) - limit
            return items[:limit]
        selected: list[Item] = []
        for item in items:
            if len(selected) == limit:
                # Whether anything more is selected is not known, as it is not to the real server.
                metadata["continue"] = token(revision, key_of(item))
                break
            if matches(item):
                selected.append(item)
        return selected

    def selected(self, resource: ResourceType, items: Iterable[Item], options: ListOptions) -> list[Item]:
        """The items that the selectors of a list match."""
        matches = self._matcher(resource, options)
        return list(items) if matches is None else [item for item in items if matches(item)]

    def _matcher(self, resource: ResourceType, options: ListOptions) -> Callable[[Item], bool] | None:
        labels, fields = options.labels, options.fields
        if labels is None and fields is None:
            return None

        def matches(item: Item) -> bool:
            if labels is not None and not labels.matches(item.labels):
                return False
            return fields is None or fields.matches(fields_of(resource, item))

        return matches

    def check_fields(self, resource: ResourceType, options: ListOptions) -> None:
        """Refuse field selectors on fields that the kind does not offer."""
        if options.fields is None:
            return
        known = {"metadata.name", "metadata.namespace", *resource.strategy.selectable}
        for name in options.fields.names:
            if name not in known:
                if resource.definition is None and not resource.strategy.selectable:
                    only = 'only "metadata.name", "metadata.namespace"'
                    raise bad_request(f'"{name}" is not a known field selector: {only}')
                raise bad_request(f"field label not supported: {name}")

    # Watches.

    def watch(self, resource: ResourceType, namespace: str, options: ListOptions, form: Form, include: str) -> Response:
        """Return a stream of events. Raises `APIError` for an invalid request."""
        self.check_fields(resource, options)
        stream = Watch(self._server, resource, namespace, options, form, include, self._matcher(resource, options))
        media = f"{PROTOBUF};stream=watch" if stream.protobuf else "application/json"
        return Response(200, content_type=media, stream=stream.chunks())


def _in_version(table: Object, form: Form) -> Object:
    """A table, and the metadata in it, in the version that was asked for."""
    if form.version != "v1":
        table["apiVersion"] = f"meta.k8s.io/{form.version}"
        for row in table["rows"]:
            shown: Object = row["object"] or {}
            if shown.get("kind") == "PartialObjectMetadata":
                shown["apiVersion"] = table["apiVersion"]
    return table


def _go_type(resource: ResourceType, kind: str) -> str:
    if resource.definition is not None:
        return "*unstructured.UnstructuredList" if kind == resource.list_kind else "*unstructured.Unstructured"
    return f"*{INTERNAL.get(resource.group, resource.group.partition('.')[0])}.{kind}"


class StorageReader:
    """Reads of the stored objects for the other parts of the server."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """Return a copy of an object in the storage version, or `None`."""
        item = self._storage.get((group, resource), namespace, name)
        return None if item is None else item.object()

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]:
        """Return copies of the objects of a namespace, or of all."""
        return [item.object() for item in self._storage.items((group, resource), namespace)]
