"""The `PROJECT` file: the name of a project, and the kinds, controllers and webhooks that were created in it.

Its keys are those of kubebuilder where they exist. Every generated file depends only on this value and the templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml

from steersman import documents
from steersman.scaffold.errors import ScaffoldError
from steersman.scaffold.names import (
    check_domain,
    check_group,
    check_kind,
    check_module,
    check_package,
    check_plural,
    check_project_name,
    check_version,
    module_name,
)

__all__ = ["LAYOUT", "Project", "Resource", "Webhooks", "dump", "parse"]

LAYOUT: Final = "steersman/v1"
_HEADER: Final = """\
# The state of this project. Change it with `steersman create`, `edit`, `delete` and `update` only.
"""


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The webhooks of a kind."""

    defaulting: bool = False
    validation: bool = False
    conversion: bool = False
    spoke: tuple[str, ...] = ()
    """Versions that are converted to this version (the hub) and back."""

    def __bool__(self) -> bool:
        return self.defaulting or self.validation or self.conversion


@dataclass(frozen=True, slots=True)
class Resource:
    """One version of a kind."""

    group: str
    version: str
    kind: str
    domain: str = ""
    """Empty for Kubernetes' own groups."""
    plural: str = ""
    namespaced: bool = True
    api: bool = True
    """Whether this project has the class of the kind."""
    path: str = ""
    """The module of the class."""
    controllers: tuple[str, ...] = ()
    """Names of the controllers; the default name is "" for the first one."""
    webhooks: Webhooks = field(default=Webhooks())
    storage: bool = True
    grouped: bool = False
    """Whether the file names include the group, because the project was multi-group at creation."""

    @property
    def qualified_group(self) -> str:
        """The API group."""
        return ".".join(part for part in (self.group, self.domain) if part) if self.group != "core" else self.domain

    @property
    def key(self) -> tuple[str, str, str]:
        """Group, version and kind."""
        return (self.qualified_group, self.version, self.kind)

    @property
    def stem(self) -> str:
        """The common prefix of the file names."""
        prefix = f"{module_name(self.group)}_" if self.grouped and self.group else ""
        return f"{prefix}{self.kind.lower()}"

    def __str__(self) -> str:
        return f"{self.kind} ({'/'.join(part for part in (self.qualified_group, self.version) if part)})"


@dataclass(frozen=True, slots=True)
class Project:
    """All inputs of the templates."""

    name: str
    package: str
    domain: str
    version: str
    """The version of Steersman whose templates were used last."""
    multigroup: bool = False
    namespaced: bool = False
    """Whether the operator works only in its own namespace."""
    description: str = ""
    license: str = ""
    owner: str = ""
    resources: tuple[Resource, ...] = ()

    def find(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource with a qualified group, version and kind, or None."""
        return next((r for r in self.resources if r.key == (group, version, kind)), None)

    def with_resource(self, resource: Resource) -> Project:
        """Return the project with a resource added or replaced, in a stable order."""
        others = [r for r in self.resources if r.key != resource.key]
        return replace(self, resources=tuple(sorted([*others, resource], key=lambda r: r.key)))

    def without_resource(self, resource: Resource) -> Project:
        """Return the project without a resource."""
        return replace(self, resources=tuple(r for r in self.resources if r.key != resource.key))


def dump(project: Project) -> str:
    """Return the text of the `PROJECT` file; equal projects give equal text."""
    data: dict[str, Any] = {
        "layout": [LAYOUT],
        "version": "1",
        "cliVersion": project.version,
        "projectName": project.name,
        "package": project.package,
        "domain": project.domain,
    }
    for key in ("multigroup", "namespaced", "description", "license", "owner"):
        if value := getattr(project, key):
            data[key] = value
    if project.resources:
        data["resources"] = [_resource_data(resource) for resource in project.resources]
    return _HEADER + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)


def _resource_data(resource: Resource) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if resource.api:
        data["api"] = {"crdVersion": "v1", "namespaced": resource.namespaced}
    else:
        data["external"] = True
        data["namespaced"] = resource.namespaced
    if resource.controllers:
        data["controllers"] = [{"name": name} if name else {} for name in resource.controllers]
    for key in ("domain", "group", "kind", "version", "plural", "path"):
        if value := getattr(resource, key):
            data[key] = value
    if not resource.storage:
        data["storage"] = False
    if resource.grouped:
        data["grouped"] = True
    if hooks := resource.webhooks:
        data["webhooks"] = {
            **({"conversion": True} if hooks.conversion else {}),
            **({"defaulting": True} if hooks.defaulting else {}),
            **({"spoke": list(hooks.spoke)} if hooks.spoke else {}),
            **({"validation": True} if hooks.validation else {}),
            "webhookVersion": "v1",
        }
    return data


def parse(text: str) -> Project:
    """Parse a `PROJECT` file. Raises `ScaffoldError` with the invalid part."""
    try:
        data = documents.load(text)
    except yaml.YAMLError as wrong:
        raise ScaffoldError(f"PROJECT is not YAML: {str(wrong).splitlines()[0]}", 1) from None
    if not isinstance(data, dict) or LAYOUT not in (data.get("layout") or ()):  # pyright: ignore[reportUnknownMemberType]
        raise ScaffoldError(f"PROJECT does not belong to a Steersman project: its layout is not {LAYOUT}", 1)
    return _project(data)  # pyright: ignore[reportUnknownArgumentType]


def _project(data: Mapping[str, Any]) -> Project:
    try:
        return Project(
            name=check_project_name(str(data["projectName"])),
            package=check_package(str(data["package"])),
            domain=check_domain(str(data["domain"])),
            version=str(data["cliVersion"]),
            multigroup=bool(data.get("multigroup")),
            namespaced=bool(data.get("namespaced")),
            description=str(data.get("description") or ""),
            license=str(data.get("license") or ""),
            owner=str(data.get("owner") or ""),
            resources=tuple(_resource(one) for one in data.get("resources") or ()),
        )
    except KeyError as missing:
        raise ScaffoldError(f"PROJECT has no {missing.args[0]!r}: restore it from version control", 1) from None
    except (TypeError, AttributeError):
        raise ScaffoldError("PROJECT has a value of the wrong type: restore it from version control", 1) from None
    except ScaffoldError as wrong:
        raise ScaffoldError(f"PROJECT: {wrong}", 1) from None


def _resource(data: Mapping[str, Any]) -> Resource:
    hooks: Mapping[str, Any] = data.get("webhooks") or {}
    api = data.get("api")
    names = tuple(str(one.get("name", "")) for one in data.get("controllers") or ())
    return Resource(
        group=check_group(str(data.get("group") or "")),
        version=check_version(str(data["version"])),
        kind=check_kind(str(data["kind"])),
        domain=str(data.get("domain") or ""),
        plural=check_plural(str(data["plural"])),
        namespaced=bool((api or data).get("namespaced")),
        api=bool(api),
        path=_dotted(str(data["path"])),
        controllers=tuple(name and check_module(module_name(name), "a controller's name") and name for name in names),
        webhooks=Webhooks(
            defaulting=bool(hooks.get("defaulting")),
            validation=bool(hooks.get("validation")),
            conversion=bool(hooks.get("conversion")),
            spoke=tuple(check_version(str(one)) for one in hooks.get("spoke") or ()),
        ),
        storage=bool(data.get("storage", True)),
        grouped=bool(data.get("grouped")),
    )


def _dotted(path: str) -> str:
    for word in path.split("."):
        check_module(word, f"path {path!r}")
    return path
