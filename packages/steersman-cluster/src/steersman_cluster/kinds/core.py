"""ConfigMap, Secret, ServiceAccount and Namespace: the kinds that nearly every operator writes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_object, get_string
from steersman_cluster.kinds import columns, formats
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path, annotations_of, dig, from_json, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "ConfigMap", "Namespace", "Secret", "ServiceAccount"]

_DATA = Path("data")
_MAX_SIZE = 1 << 20
_FROZEN = "field is immutable when `immutable` is set"
_NAME_LABEL = "kubernetes.io/metadata.name"


def _key_errors(path: Path, keys: Sequence[str]) -> list[FieldError]:
    return [error for key in sorted(keys) for error in check.check(formats.config_map_key, path.key(key), key)]


def _frozen(obj: Object, old: Object, fields: Sequence[str]) -> list[FieldError]:
    """Return the errors of changes of an object with `immutable: true`."""
    if old.get("immutable") is not True:
        return []
    found = [] if obj.get("immutable") is True else [field_forbidden("immutable", _FROZEN)]
    changed = [field for field in fields if (obj.get(field) or {}) != (old.get(field) or {})]
    return found + [field_forbidden(field, _FROZEN) for field in changed]


def _decoded_size(values: Mapping[str, str]) -> int:
    """Bytes behind base64; what does not decode has been refused before."""
    return sum(len(value) * 3 // 4 - value[-2:].count("=") for value in values.values() if value)


class ConfigMap(Plain):
    """The rules of ConfigMap objects."""

    columns = (columns.NAME, Column("Data", description="How many entries."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        size = len(get_object(obj, "data")) + len(get_object(obj, "binaryData"))
        return [columns.name(obj), size, columns.age(obj, now)]

    def errors(self, obj: Object) -> list[FieldError]:
        data: Mapping[str, str] = get_object(obj, "data")
        binary: Mapping[str, str] = get_object(obj, "binaryData")
        found: list[FieldError] = []
        for key in sorted(data):
            found += check.check(formats.config_map_key, _DATA.key(key), key)
            if key in binary:
                found.append(field_invalid(_DATA.key(key), key, "duplicate of key present in binaryData"))
        found += _key_errors(Path("binaryData"), list(binary))
        size = sum(map(len, data.values())) + _decoded_size(binary)
        if size * 4 > _MAX_SIZE:
            size = sum(len(value.encode()) for value in data.values()) + _decoded_size(binary)
            if size > _MAX_SIZE:
                found.append(check.too_long("[]", _MAX_SIZE))
        return found

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return _frozen(obj, old, ("data", "binaryData"))


class Secret(Plain):
    """The strategy of Secrets. Errors contain keys and never values."""

    columns = (
        columns.NAME,
        Column("Type", description="What the data is for."),
        Column("Data", description="How many entries."),
        columns.AGE,
    )
    selectable = ("type",)

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"type": get_string(obj, "type")}

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), get_string(obj, "type"), len(get_object(obj, "data")), columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        if texts := obj.pop("stringData", None):
            data = obj.setdefault("data", {})
            for key, value in texts.items():
                data[key] = base64.b64encode((value or "").encode()).decode()
        if not obj.get("type"):
            obj["type"] = "Opaque"

    def errors(self, obj: Object) -> list[FieldError]:
        data: Mapping[str, str] = get_object(obj, "data")
        found = _key_errors(_DATA, list(data))
        if _decoded_size(data) > _MAX_SIZE:
            found.append(check.too_long(_DATA, _MAX_SIZE))
        return found + self._content(obj, data)

    def _content(self, obj: Object, data: Mapping[str, str]) -> list[FieldError]:
        match obj.get("type"):
            case "kubernetes.io/service-account-token":
                name = "kubernetes.io/service-account.name"
                missing = not annotations_of(obj).get(name)
                return [required(Path("metadata.annotations").key(name))] if missing else []
            case "kubernetes.io/dockercfg":
                return _json_key(data, ".dockercfg")
            case "kubernetes.io/dockerconfigjson":
                return _json_key(data, ".dockerconfigjson")
            case "kubernetes.io/basic-auth" if not {"username", "password"} & data.keys():
                return [required(_DATA.key("username")), required(_DATA.key("password"))]
            case "kubernetes.io/ssh-auth" if not data.get("ssh-privatekey"):
                return [required(_DATA.key("ssh-privatekey"))]
            case "kubernetes.io/tls":
                return [required(_DATA.key(key)) for key in ("tls.crt", "tls.key") if key not in data]
            case _:
                return []

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable("type", obj.get("type"), old.get("type")) + _frozen(obj, old, ("data",))

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        if obj.get("type") != "kubernetes.io/tls":
            return ()
        data: Mapping[str, str] = get_object(obj, "data")
        return _pair_warnings(_decode(data.get("tls.crt")), _decode(data.get("tls.key")))


def _decode(value: str | None) -> bytes:
    try:
        return base64.b64decode(value or "")
    except binascii.Error:
        return b""


def _json_key(data: Mapping[str, str], key: str) -> list[FieldError]:
    if key not in data:
        return [required(_DATA.key(key))]
    redacted = "<secret contents redacted>"
    text = _decode(data[key]).decode(errors="replace")
    try:
        value = from_json(text)
    except ValueError as error:
        return [field_invalid(_DATA.key(key), redacted, _syntax_error(text, error))]
    if value is None or isinstance(value, dict):
        return []
    kind = "array" if isinstance(value, list) else "string" if isinstance(value, str) else "number"
    kind = "bool" if isinstance(value, bool) else kind
    detail = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    return [field_invalid(_DATA.key(key), redacted, detail)]


def _syntax_error(text: str, error: ValueError) -> str:
    """Go's words for the common mistakes; the value itself is never quoted beyond one character."""
    position = error.pos if isinstance(error, json.JSONDecodeError) else len(text)
    if not text[position:].strip() or not text.strip():
        return "unexpected end of JSON input"
    character = text[position:].lstrip()[0]
    where = "looking for beginning of value" if not text[:position].strip() else "in literal or structure"
    return f"invalid character {character!r} {where}"


def _pair_warnings(certificate: bytes, key: bytes) -> Sequence[str]:
    """Return whether a certificate and a key belong together, in the words of Go's `tls.X509KeyPair`."""
    if b"-----BEGIN CERTIFICATE-----" not in certificate:
        if b"-----BEGIN" not in certificate:
            return ("tls: failed to find any PEM data in certificate input",)
        return ('tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks',)
    if b"-----BEGIN" not in key:
        return ("tls: failed to find any PEM data in key input",)
    # Not at the top: most clusters never see a certificate, and the import is slow.
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
        private = load_pem_private_key(key, None).public_key()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return ("tls: failed to parse private key",)
    return () if public == private else ("tls: private key does not match public key",)


class ServiceAccount(Plain):
    """The rules of ServiceAccount objects."""

    columns = (columns.NAME, columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), columns.age(obj, now)]


class Namespace(Plain):
    """`spec.finalizers` go only through `finalize`; `status.phase` follows the deletion timestamp."""

    namespaced = False
    has_status = True
    name_rule = "label"
    revalidated_first = True
    columns = (columns.NAME, Column("Status", description="The phase."), columns.AGE)
    selectable = ("status.phase", "name")

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.phase": dig(obj, "status", "phase", default=""), "name": columns.name(obj)}

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), dig(obj, "status", "phase", default=""), columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        if name := columns.name(obj):
            labels = meta(obj).setdefault("labels", {})
            labels[_NAME_LABEL] = name
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Active"

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        self.default(obj)

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        if ctx.subresource == "status":
            obj["spec"] = old.get("spec", {})
        else:
            obj["status"] = old.get("status", {})
            if ctx.subresource != "finalize":
                obj["spec"] = old.get("spec", {})

    def errors(self, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        for finalizer in dig(obj, "spec", "finalizers", default=[]):
            found += _namespace_finalizer("spec.finalizers", finalizer)
        return found

    def status_errors(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        if ctx.subresource == "finalize":
            found: list[FieldError] = []
            for index, finalizer in enumerate(dig(obj, "spec", "finalizers", default=[])):
                found += _namespace_finalizer(Path("spec.finalizers").at(index), finalizer)
            return found
        phase = dig(obj, "status", "phase", default="")
        deleted = meta(obj).get("deletionTimestamp") is not None
        if deleted and phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [field_invalid("status.Phase", phase, text)]
        if not deleted and phase != "Active":
            return [field_invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
        return []


def _namespace_finalizer(path: str, finalizer: str) -> list[FieldError]:
    bare = metadata.finalizer_errors(Path(path), [finalizer])
    return check.qualified_name(path, finalizer) + [field_invalid(path, finalizer, error.detail) for error in bare]


STRATEGIES = {
    ("", "v1", "ConfigMap"): ConfigMap(),
    ("", "v1", "Secret"): Secret(),
    ("", "v1", "ServiceAccount"): ServiceAccount(),
    ("", "v1", "Namespace"): Namespace(),
}
