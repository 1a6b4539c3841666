"""A small example object of a kind from its schema, with required fields only.

Values follow the schema's type, enum, bounds and default, and the rules of class arguments such as `ExactlyOneOf`. A
string with a pattern is the first common text that matches. CEL rules of the developer are not solved: a kind with such
rules may need a hand-written sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from steersman.manifests.parts import Parts
from steersman.manifests.template_values import resolved

__all__ = ["examples", "sample", "sample_name"]

_TEXTS: Final = (
    "example", "a", "A", "Example", "EXAMPLE", "0", "1", "10", "1.0", "0.1.0", "v1", "v0.1.0", "v1.0", "1.0.0", "1s",
    "1h", "1m", "1d", "1h0m0s", "5m", "10%", "50%", "1Gi", "1Mi", "100m", "1k", "* * * * *", "0 * * * *", "@hourly",
    "example.com", "www.example.com", "https://example.com", "http://example.com", "https://example.com/example",
    "someone@example.com", "example.com/example", "example:1.0", "example.com/example:1.0", "nginx", "nginx:1.27",
    "/example", "/", "example.txt", "192.0.2.1", "192.0.2.0/24", "2001:db8::1", "2001:db8::/32", "80", "8080",
    "example-1", "example_1", "example/example", "default/example", "key=value", "00:00", "12:00", "2025-01-01",
    "2025-01-01T00:00:00Z", "00000000-0000-4000-8000-000000000000", "0123456789abcdef", "#000000", "en", "en-US",
    "Europe/Berlin", "UTC", "true", "false", "sha256:" + "0" * 64, "arn:aws:s3:::example", "s3://example", "",
)  # fmt: skip
"""Common texts; the first one that matches a pattern is used."""
_HAS: Final = re.compile(r"has\(self\.(\w+)\)")
_ONE_OF: Final = re.compile(r"\(?has\(self\.\w+\)( \? 1 : 0\) [+=] ?.*| \|\| .*)")
_WITH_TAG: Final = re.compile(r'self\.(\w+) != "([^"]*)" \|\| \(has\(self\.\w+\).*\)')
_FORMATS: Final = {
    "date-time": "2025-01-01T00:00:00Z",
    "date": "2025-01-01",
    "duration": "1m0s",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "byte": "ZXhhbXBsZQ==",
    "uri": "https://example.com",
    "email": "someone@example.com",
    "ipv4": "192.0.2.1",
    "quantity": "1",
}


def sample(crd: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return an example of one version of the CRD; it has no namespace."""
    spec = crd["spec"]
    schema: dict[str, Any] = next(v["schema"]["openAPIV3Schema"] for v in spec["versions"] if v["name"] == version)
    found: dict[str, Any] = {
        "apiVersion": f"{spec['group']}/{version}",
        "kind": spec["names"]["kind"],
        "metadata": {"name": sample_name(crd, version)},
    }
    properties: dict[str, Any] = schema.get("properties") or {}
    for name, value in properties.items():
        if name not in ("apiVersion", "kind", "metadata", "status") and (
            name in (schema.get("required") or ()) or name == "spec"
        ):
            found[name] = _value(value)
    return found


def sample_name(crd: Mapping[str, Any], version: str) -> str:
    """Return the name of the sample object, which differs between versions of a kind."""
    spec = crd["spec"]
    stored = any(v["storage"] for v in spec["versions"] if v["name"] == version)
    return f"{spec['names']['singular']}-sample" if stored else f"{spec['names']['singular']}-{version}-sample"


def examples(parts: Parts, given: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one example for every served version, sorted."""
    written = {(one.get("apiVersion"), one.get("kind")): dict(one) for one in given}
    found: list[dict[str, Any]] = []
    for tree in parts.crds:
        crd = resolved(tree)
        for version in crd["spec"]["versions"]:
            if version["served"]:
                key = f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]
                found.append(written.get(key) or sample(crd, version["name"]))
    return sorted(found, key=lambda one: (one["kind"], one["apiVersion"]))


def _value(schema: Mapping[str, Any], number: int = 0) -> Any:
    """Return a value for the schema; a different `number` gives a different value, for lists."""
    if "default" in schema and not number:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][number % len(schema["enum"])]
    match schema.get("type"):
        case "object":
            return _object(schema, number)
        case "array":
            return [_value(schema["items"], n) for n in range(schema.get("minItems") or 0)]
        case "integer" | "number":
            return _number(schema, number)
        case "boolean":
            return False
        case "string":
            return _text(schema, number)
        case _:
            return 1 if schema.get("x-kubernetes-int-or-string") else {}


def _object(schema: Mapping[str, Any], number: int) -> dict[str, Any]:
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    if set(properties) == {"metadata", "spec"}:
        required = ["spec"]  # the template of a Pod or a Job
    found = {name: _value(value, number) for name, value in properties.items() if name in required}
    if found.get("containers") == [] and "containers" in required:
        found["containers"] = [{"image": "nginx", "name": "example"}]
    for rule in schema.get("x-kubernetes-validations") or ():
        for name in _demanded(str(rule["rule"]), found):
            if name in properties:
                found.setdefault(name, _value(properties[name], number))
    values: Any = schema.get("additionalProperties")
    if isinstance(values, dict):
        least = int(schema.get("minProperties") or 0)
        found |= {f"example{n or ''}": _value(cast("dict[str, Any]", values), n) for n in range(least)}
    return found


def _demanded(rule: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the properties that a rule of a class argument requires in addition to `found`."""
    names = _HAS.findall(rule)
    if tag := _WITH_TAG.fullmatch(rule):
        if found.get(tag[1]) == tag[2] and "!has" not in rule:
            yield from names
    elif _ONE_OF.fullmatch(rule) and not rule.endswith("<= 1") and not any(name in found for name in names):
        yield names[0]


def _number(schema: Mapping[str, Any], number: int) -> Any:
    least = schema.get("minimum")
    most = schema.get("maximum")
    step = schema.get("multipleOf") or 1
    if least is None:
        value = 1 if most is None or most >= 1 else most
    else:
        value = least + (step if schema.get("exclusiveMinimum") else 0)
    if schema.get("multipleOf"):
        value = -(-value // step) * step
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        value = most - (step if schema.get("exclusiveMaximum") else 0)
    return value + number * step if most is None or value + number * step <= most else value


def _text(schema: Mapping[str, Any], number: int) -> str:
    found = _formatted(schema)
    if not number or "format" in schema:
        return found
    other = found[: max(0, (schema.get("maxLength") or 253) - len(str(number)))] + str(number)
    return other if _matches(schema, other) else found


def _formatted(schema: Mapping[str, Any]) -> str:
    value = _FORMATS.get(str(schema.get("format")), "example")
    if "pattern" in schema:
        value = next((text for text in (value, *_TEXTS) if _matches(schema, text)), value)
    least, most = schema.get("minLength") or 0, schema.get("maxLength")
    if len(value) < least:
        value = value.ljust(least, "x")
    return value if most is None else value[:most]


def _matches(schema: Mapping[str, Any], text: str) -> bool:
    fits = (schema.get("minLength") or 0) <= len(text) <= schema.get("maxLength", len(text))
    try:
        return fits and ("pattern" not in schema or re.search(schema["pattern"], text) is not None)
    except re.error:  # RE2 supports some patterns that this module does not
        return False
