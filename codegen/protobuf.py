"""Generates the field table of the protobuf codec from the Go types of the Kubernetes API.

Struct tags give the number, the wire type and the JSON name of each field. The Go type says whether a zero value is
left out (a plain field with omitempty) or sent (a pointer).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from codegen.sources import CLUSTER, GO_MODULE_VERSION, go_module_directory

__all__ = ["generate"]

TARGET = CLUSTER / "protobuf" / "fields.json"
PACKAGES = (
    "api/admissionregistration/v1", "api/apps/v1", "api/authentication/v1", "api/authorization/v1",
    "api/autoscaling/v1", "api/autoscaling/v2", "api/batch/v1", "api/certificates/v1", "api/coordination/v1",
    "api/core/v1", "api/discovery/v1", "api/events/v1", "api/flowcontrol/v1", "api/networking/v1", "api/node/v1",
    "api/policy/v1", "api/rbac/v1", "api/resource/v1", "api/scheduling/v1", "api/storage/v1",
    "apimachinery/pkg/apis/meta/v1", "apiextensions-apiserver/pkg/apis/apiextensions/v1",
    "kube-aggregator/pkg/apis/apiregistration/v1",
)  # fmt: skip
SPECIAL = {
    "meta/v1.Time": "time",
    "meta/v1.MicroTime": "microtime",
    "meta/v1.Duration": "duration",
    "meta/v1.FieldsV1": "fields",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intstr",
    "runtime.RawExtension": "raw",
    "apiextensions/v1.JSON": "raw",
}
SCALARS = {
    "string": "s", "bool": "b", "int": "i", "int32": "i", "int64": "i", "uint8": "i", "uint32": "i",
    "float64": "d", "[]byte": "y", "types.UID": "s", "byte": "i",
}  # fmt: skip

_STRUCT = re.compile(r"^type (\w+) struct ?\{(\})?$")
_NAMED = re.compile(r"^type (\w+) (?!struct\b|interface\b|func\b)=? ?(\S+)$")
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([^\s`]+)\s+`([^`]*)`")
_JSON = re.compile(r'json:"([^"]*)"')
_TAG = re.compile(r'protobuf:"([^"]*)"')
_IMPORT = re.compile(r'^\t(\w+)? ?"(k8s\.io/[^"]+)"$')


class Package:
    """The types of one Go package."""

    def __init__(self, root: Path, path: str) -> None:
        module, _, inner = path.partition("/")
        directory = root / f"{module}@{GO_MODULE_VERSION}" / inner
        self.name = "/".join(path.split("/")[-2:])
        self.structs: dict[str, list[tuple[str, str, str]]] = {}
        self.named: dict[str, str] = {}
        self.imports: dict[str, str] = {}
        self.group = ""
        for source in sorted(directory.glob("*.go")):
            if source.name.endswith("_test.go") or source.name.startswith(("zz_", "generated")):
                continue
            self._read(source.read_text())
        registered = (directory / "register.go").read_text()
        if (group := re.search(r'GroupName\s*=\s*"([^"]*)"', registered)) is not None:
            self.group = group[1]

    def _read(self, text: str) -> None:
        current: list[tuple[str, str, str]] | None = None
        for line in text.splitlines():
            if (found := _STRUCT.match(line)) is not None:
                fields = self.structs.setdefault(found[1], [])
                current = None if found[2] else fields
            elif line == "}":
                current = None
            elif current is not None and (found := _FIELD.match(line)) is not None:
                current.append((found[1] or "", found[2], found[3]))
            elif current is None and (found := _NAMED.match(line)) is not None:
                self.named[found[1]] = found[2]
            elif (found := _IMPORT.match(line)) is not None:
                self.imports[found[1] or found[2].rsplit("/", 1)[-1]] = "/".join(found[2].split("/")[-2:])


class Table:
    """The table as it grows."""

    def __init__(self, root: Path) -> None:
        self.packages = {package.name: package for package in (Package(root, path) for path in PACKAGES)}
        self.messages: dict[str, list[list[Any]]] = {}
        self.kinds: dict[str, str] = {}

    def build(self) -> None:
        for package in self.packages.values():
            for struct, fields in package.structs.items():
                if f"{package.name}.{struct}" in SPECIAL:
                    continue
                made = [row for field in fields if (row := self._row(package, field)) is not None]
                if made or not fields:
                    self.messages[f"{package.name}.{struct}"] = sorted(made, key=lambda row: row[0])
                version = package.name.rsplit("/", 1)[-1]
                if any(go == "metav1.TypeMeta" or go == "TypeMeta" for _, go, _ in fields):
                    self.kinds[f"{package.group}/{version}/{struct}"] = f"{package.name}.{struct}"

    def _row(self, package: Package, field: tuple[str, str, str]) -> list[Any] | None:
        _, go, tags = field
        tag = _TAG.search(tags)
        if tag is None:
            return None
        number = int(tag[1].split(",")[1])
        name, *options = (_JSON.search(tags) or ["", ""])[1].split(",")
        flags = ""
        if go.startswith("*"):
            go, flags = go[1:], flags + "p"
        if "omitempty" in options or "omitzero" in options:
            flags += "o"
        if "inline" in options:
            name = ""
        kind, shape = self._kind(package, go)
        return [number, name, kind, flags + shape]

    def _kind(self, package: Package, go: str) -> tuple[str, str]:
        """What stands on the wire, and whether many (`r`), in a map (`k`), or in a message of items (`l`)."""
        if go in SCALARS:
            return SCALARS[go], ""
        if go.startswith("[]"):
            kind, shape = self._kind(package, go.removeprefix("[]").removeprefix("*"))
            return kind, "r" if not shape else f"r{shape}"
        if (found := re.match(r"map\[[\w.]+\](.*)", go)) is not None:
            kind, shape = self._kind(package, found[1].removeprefix("*"))
            return kind, f"k{shape}"
        owner = package
        if "." in go:
            alias, go = go.split(".")
            place = package.imports.get(alias, alias)
            if place not in self.packages:
                return SPECIAL[f"{place.rsplit('/', 1)[-1]}.{go}"], ""
            owner = self.packages[place]
        full = f"{owner.name}.{go}"
        if full in SPECIAL:
            return SPECIAL[full], ""
        if go in owner.structs:
            return full, ""
        target = owner.named[go]
        kind, shape = self._kind(owner, target)
        # A named list is a message with one repeated field.
        return kind, "l" if shape == "r" and go in ("ExtraValue", "Verbs") else shape


def generate() -> dict[Path, bytes]:
    """Return the table of kinds and messages, by path."""
    table = Table(go_module_directory())
    table.build()
    body = {"kinds": dict(sorted(table.kinds.items())), "messages": dict(sorted(table.messages.items()))}
    return {TARGET: (json.dumps(body, separators=(",", ":")) + "\n").encode()}
