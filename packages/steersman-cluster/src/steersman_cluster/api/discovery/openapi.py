"""OpenAPI version 3 by group and version, custom resources included, and version 2 derived from it."""

from __future__ import annotations

import hashlib
import json
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple, cast

import zstandard

from steersman.telemetry.log import get_logger
from steersman_cluster.api.builtins import facts
from steersman_cluster.api.discovery.aggregated_openapi import without_conflicts
from steersman_cluster.api.interfaces import ResourceType, Server
from steersman_cluster.api.pod_metrics import GROUP as METRICS_GROUP
from steersman_cluster.api.requests.messages import Request, Response, encode
from steersman_cluster.api.requests.negotiation import JSON, quality
from steersman_cluster.crd import published_schemas, second_version
from steersman_cluster.objects import Object
from steersman_cluster.protobuf import openapi as openapi_protobuf

__all__ = ["OpenAPI"]

_PREFIX: Final = "/openapi/v3"
_CORE: Final = "api/v1"
_VARY: Final = (("Vary", "Accept"),)
_WINDOW: Final = 1 << 25
_log = get_logger("apiserver")


class OpenAPI:
    """Serves the OpenAPI documents of one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._v2: tuple[tuple[int, int], _Second] | None = None

    async def serve(self, path: str, request: Request) -> Response:
        """The index, one document, or version 2; a 404 otherwise."""
        if path == "/openapi/v2":
            return self._second(request.headers.get("Accept") or "", request.headers.get("If-None-Match") or "")
        if path == _PREFIX:
            return Response(200, encode({"paths": self._index()}))
        if not path.startswith(f"{_PREFIX}/"):
            return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
        where = path.removeprefix(f"{_PREFIX}/")
        body = self._document(where)
        if body is None:
            return Response(404, b"", "")
        etag = _hash(where, body)
        headers = [("ETag", f'"{etag}"'), ("Vary", "Accept")]
        if request.params.get("hash") == etag:
            headers += [("Cache-Control", "public, immutable"), ("Expires", "Fri, 01 Jan 2100 00:00:00 GMT")]
        if (request.headers.get("If-None-Match") or "").strip('"') == etag:
            return Response(304, b"", headers=tuple(headers))
        return Response(200, body, headers=tuple(headers))

    def _index(self) -> Object:
        paths: Object = {}
        known = _hashes()
        for where in self._documents():
            digest = known.get(where.replace("/", "_"))
            if digest is None:
                body = self._document(where)
                assert body is not None
                digest = _hash(where, body)
            paths[where] = {"serverRelativeURL": f"{_PREFIX}/{where}?hash={digest}"}
        return paths

    def _documents(self) -> list[str]:
        served = {(t.group, t.version) for t in self._server.registry.all() if t.group != METRICS_GROUP}
        served |= self._server.aggregation.documents().keys()
        return sorted(f"apis/{group}/{version}" if group else f"api/{version}" for group, version in served)

    def _document(self, where: str) -> bytes | None:
        shipped = _shipped(where)
        if shipped is not None:
            return shipped
        parts = where.split("/")
        if len(parts) != 3 or parts[0] != "apis":
            return None
        aggregated = self._server.aggregation.documents().get((parts[1], parts[2]))
        if aggregated is not None:
            return aggregated
        types = [t for t in self._server.registry.all() if (t.group, t.version) == (parts[1], parts[2])]
        return _custom(types) if types else None

    def _second(self, accept: str, known: str) -> Response:
        media = second_media_type(accept)
        if media is None:
            return Response(406, b"", "", _VARY)
        serial = (self._server.registry.serial, self._server.aggregation.serial)
        if self._v2 is None or self._v2[0] != serial:
            self._v2 = (serial, self._make_second())
        kept = self._v2[1]
        headers = (("ETag", f'"{kept.etag}"'), *_VARY)
        if kept.etag in (tag.strip().removeprefix("W/").strip('"') for tag in known.split(",")):
            return Response(304, b"", media, headers)
        return Response(200, kept.json if media == JSON else kept.protobuf, media, headers)

    def _make_second(self) -> _Second:
        info: Object = {"title": "Kubernetes", "version": facts()["version"]["gitVersion"]}
        definitions: Object = {}
        paths: Object = {}
        aggregated = {f"apis/{group}/{version}" for group, version in self._server.aggregation.documents()}
        for where in self._documents():
            if where in aggregated:
                continue
            body = self._document(where)
            assert body is not None
            document = json.loads(_with_definitions(body))
            schemas: Object = document["components"]["schemas"]
            if _shipped(where) is None:
                own = f"{'.'.join(reversed(where.split('/')[1].split('.')))}."
                schemas = {name: second_version(s) if name.startswith(own) else s for name, s in schemas.items()}
            definitions.update(schemas)
            paths.update({path: _second_path(item) for path, item in document["paths"].items()})
        for (group, version), body in sorted(self._server.aggregation.documents().items()):
            try:
                document = json.loads(without_conflicts(_with_definitions(body), definitions))
                added = _made_second(document["paths"], document["components"]["schemas"])
                _packed_second(info, *added)  # A part that cannot be encoded would break the whole document.
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as problem:
                _log.warning("aggregated_openapi_not_merged", group=group, version=version, problem=repr(problem))
                continue
            paths = {**added[0], **paths}
            definitions = {**document["components"]["schemas"], **definitions}
        definitions = {name: _plain(schema) for name, schema in definitions.items()}
        whole = encode({"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions})
        # Both forms have the ETag of the JSON; `Vary` distinguishes them.
        return _Second(whole, _packed_second(info, paths, definitions), hashlib.sha512(whole).hexdigest().upper())


def _with_definitions(body: bytes) -> bytes:
    """Return a document of version 3 whose references are those of version 2."""
    return body.replace(b"#/components/schemas/", b"#/definitions/")


def _made_second(paths: Object, schemas: Object) -> tuple[Object, Object]:
    made = {path: _second_path(item) for path, item in paths.items()}
    return made, {name: _plain(schema) for name, schema in schemas.items()}


def _packed_second(info: Object, paths: Object, definitions: Object) -> bytes:
    return openapi_protobuf.document(
        info,
        (openapi_protobuf.path_field(path, item) for path, item in paths.items()),
        (openapi_protobuf.definition_field(name, schema) for name, schema in definitions.items()),
    )


class _Second(NamedTuple):
    """The document of version 2 in both of its forms."""

    json: bytes
    protobuf: bytes
    etag: str


def second_media_type(accept: str) -> str | None:
    """The media type in which version 2 answers an `Accept` header; None where it has none that is acceptable."""
    if not accept.strip():
        return JSON
    clauses = [clause.strip() for clause in accept.split(",")]
    for clause in sorted(clauses, key=quality, reverse=True):
        wanted = clause.partition(";")[0].strip()
        if wanted in (JSON, "*/*", "application/*", "*"):
            return JSON
        if wanted in openapi_protobuf.OPENAPI_MEDIA_TYPES:
            return openapi_protobuf.OPENAPI_MEDIA_TYPE
    return None


@cache
def _hashes() -> dict[str, str]:
    """The hashes of the shipped documents, so that the index reads none of them."""
    return json.loads(files("steersman_cluster").joinpath("data", "openapi.json").read_bytes())


def _hash(where: str, body: bytes) -> str:
    return _hashes().get(where.replace("/", "_")) or hashlib.sha512(body).hexdigest().upper()


@lru_cache(maxsize=2)
def _shipped(where: str) -> bytes | None:
    """A document of built-in kinds; the core group's is the dictionary of all others. Two are kept: they are big."""
    name = where.replace("/", "_")
    if name not in _hashes():
        return None
    packed = files("steersman_cluster").joinpath("data", f"{name}.json.zst").read_bytes()
    if where == _CORE:
        return zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompress(packed)
    core = _shipped(_CORE)
    assert core is not None
    shared = zstandard.ZstdCompressionDict(core, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdDecompressor(dict_data=shared, max_window_size=_WINDOW).decompress(packed)


def _plain(schema: Any) -> Any:
    """A schema of version 3 in version 2: a reference beside other keywords loses `allOf`."""
    if isinstance(schema, list):
        return [_plain(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    found = cast(Object, schema)
    parts = found.get("allOf")
    made = {
        key: _plain(value) for key, value in found.items() if key not in ("allOf", "oneOf", "anyOf", "not", "nullable")
    }
    if isinstance(parts, list) and len(cast("list[Any]", parts)) == 1 and "$ref" in parts[0]:
        made["$ref"] = parts[0]["$ref"]
        made.pop("default", None)
    return made


def _second_path(item: Object) -> Object:
    """Enough of a path for clients of version 2: which verbs there are, for which kind."""
    kept: Object = {}
    for verb, operation in item.items():
        if verb == "parameters":
            kept[verb] = [_second_parameter(parameter) for parameter in operation]
        elif isinstance(operation, dict):
            kept[verb] = _second_operation(cast(Object, operation))
    return kept


def _second_operation(described: Object) -> Object:
    made: Object = {
        key: value
        for key, value in described.items()
        if key.startswith("x-") or key in ("description", "operationId", "tags")
    }
    responses: Object = described.get("responses", {"200": {}})
    made["responses"] = {code: _second_response(response) for code, response in responses.items()}
    made["produces"] = sorted({m for response in responses.values() for m in response.get("content", {})})
    body: Object = described.get("requestBody", {}).get("content", {})
    made["consumes"] = sorted(body) or ["*/*"]
    made["parameters"] = [_second_parameter(p) for p in described.get("parameters", ()) if "name" in p]
    if (schema := _first_schema(body)) is not None:
        required = described.get("requestBody", {}).get("required", False)
        made["parameters"].insert(0, {"name": "body", "in": "body", "required": required, "schema": schema})
    return made


def _second_response(response: Object) -> Object:
    made: Object = {"description": response.get("description", "OK")}
    if (schema := _first_schema(response.get("content", {}))) is not None:
        made["schema"] = schema
    return made


def _first_schema(content: Object) -> Any:
    """The schema of the first media type that has one: all media types of an answer or of a body share it."""
    return next((_plain(described["schema"]) for described in content.values() if "schema" in described), None)


def _second_parameter(parameter: Object) -> Object:
    kept = {key: parameter[key] for key in ("name", "in", "required", "description") if key in parameter}
    return {**kept, "type": parameter.get("schema", {}).get("type", "string"), "uniqueItems": True}


def _custom(types: list[ResourceType]) -> bytes:
    """The document of one group and version of custom resources."""
    schemas: Object = {}
    paths: Object = {}
    for t in sorted(types, key=lambda t: t.plural):
        definition = cast(Object, t.definition)
        name = ".".join([*reversed(t.group.split(".")), t.version, t.kind])
        version = next(v for v in definition["spec"]["versions"] if v["name"] == t.version)
        schemas.update(published_schemas(definition, version))
        paths.update(_paths(t, name))
    schemas.update(_meta_schemas(schemas))
    body = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    return encode(body)


_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."


def _meta_schemas(needed: Object) -> Object:
    shipped = _shipped("api/v1")
    assert shipped is not None
    known: Object = json.loads(shipped)["components"]["schemas"]
    names = ["ObjectMeta", "ListMeta", "DeleteOptions", "Status", "Patch"]
    found: Object = {}
    waiting = [f"{_META}{name}" for name in names]
    while waiting:
        name = waiting.pop()
        if name in found or name not in known:
            continue
        found[name] = known[name]
        waiting += [part.split('"')[0] for part in json.dumps(known[name]).split("#/components/schemas/")[1:]]
    return found


_MEDIA: Final = ("application/json", "application/yaml")


def _paths(t: ResourceType, name: str) -> Object:
    base = f"/apis/{t.group}/{t.version}" + ("/namespaces/{namespace}" if t.namespaced else "") + f"/{t.plural}"
    scope = [_parameter("namespace")] if t.namespaced else []
    paths: Object = {
        base: {
            "get": _operation(t, "list", f"{name}List", scope),
            "post": _operation(t, "post", name, scope, body=True),
            "delete": _operation(t, "deletecollection", f"{_META}Status", scope),
        }
    }
    one = f"{base}/{{name}}"
    suffixes = ["", *(f"/{suffix}" for suffix in sorted(t.subresources))]
    for suffix in suffixes:
        operations: Object = {
            "get": _operation(t, "get", name, [_parameter("name"), *scope]),
            "put": _operation(t, "put", name, [_parameter("name"), *scope], body=True),
            "patch": _operation(t, "patch", name, [_parameter("name"), *scope], patch=True),
        }
        if not suffix:
            operations["delete"] = _operation(t, "delete", f"{_META}Status", [_parameter("name"), *scope])
        paths[f"{one}{suffix}"] = operations
    return paths


def _parameter(name: str) -> Object:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


def _operation(
    t: ResourceType, action: str, answer: str, parameters: list[Object], *, body: bool = False, patch: bool = False
) -> Object:
    reference = {"$ref": f"#/components/schemas/{answer}"}
    made: Object = {
        "tags": [f"{t.group.replace('.', '_')}_{t.version}"],
        "operationId": f"{action}{t.group.title().replace('.', '')}{t.version.title()}{t.kind}",
        "parameters": [*parameters, *_QUERY],
        "responses": {"200": {"description": "OK", "content": {m: {"schema": reference} for m in _MEDIA}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": t.group, "version": t.version, "kind": t.kind},
    }
    if body:
        made["requestBody"] = {"content": {m: {"schema": reference} for m in _MEDIA}}
    if patch:
        kind = {"$ref": f"#/components/schemas/{_META}Patch"}
        media = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
        made["requestBody"] = {"content": {m: {"schema": kind} for m in media}}
    return made


_QUERY: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "pretty")
]
