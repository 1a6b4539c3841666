"""The changes of a project by `create`, `edit` and `delete`, as pure functions of a `Project`.

Each function refuses changes that would break the project, and says what to do instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from steersman.models.resource_info import guess_plural
from steersman.scaffold.errors import ScaffoldError
from steersman.scaffold.names import (
    check_group,
    check_kind,
    check_module,
    check_plural,
    check_project_name,
    check_version,
    module_name,
)
from steersman.scaffold.project import Project, Resource, Webhooks

__all__ = [
    "ApiOptions",
    "External",
    "WebhookOptions",
    "controller_module",
    "create_api",
    "create_webhook",
    "declared",
    "delete_api",
    "delete_webhook",
    "edit",
]


@dataclass(frozen=True, slots=True)
class External:
    """The class of a kind that is defined elsewhere; not needed for Kubernetes' own kinds."""

    path: str = ""
    """The module of the class."""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """The options of `create api`; `None` for options that are not set."""

    group: str
    version: str
    kind: str
    plural: str | None = None
    namespaced: bool | None = None
    resource: bool | None = None
    controller: bool | None = None
    controller_name: str = ""
    external: External = External()
    force: bool = False


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The options of `create webhook` and `delete webhook`."""

    group: str
    version: str
    kind: str
    defaulting: bool = False
    validation: bool = False
    conversion: bool = False
    spoke: Sequence[str] = ()
    external: External = External()
    force: bool = False


def create_api(project: Project, options: ApiOptions) -> Project:
    """Add a version of a kind, a controller for it, or both. Raises `ScaffoldError`."""
    check_group(options.group)
    check_version(options.version)
    check_kind(options.kind)
    group = _own_group(project, options.group)
    found = project.find(group, options.version, options.kind)
    resource: Resource
    if options.resource is False:
        resource = found or _external_resource(project, options.group, options.version, options.kind, options.external)
        if options.controller is False:
            raise ScaffoldError(
                "with --resource=false and --controller=false there is nothing to create: omit one of them"
            )
    elif found is not None and found.api:
        if options.resource is None and options.controller:
            resource = found  # an additional controller for an existing kind
        elif options.force:
            resource = found
        else:
            raise ScaffoldError(
                f"{found} exists already: --force writes its files again, --resource=false --controller"
                " --controller-name NAME adds a controller to it"
            )
    else:
        resource = _new(project, options, group)
    had = {"plural": resource.plural, "namespaced": resource.namespaced}
    for option, wanted in (("plural", options.plural), ("namespaced", options.namespaced)):
        if wanted is not None and wanted != had[option]:
            raise ScaffoldError(
                f"--{option}: {resource.kind} has {had[option]!r}, which must be the same in all its versions"
            )
    if _needs_controller(project, options, resource):
        resource = _with_controller(project, resource, options)
    return project.with_resource(resource)


def _own_group(project: Project, group: str) -> str:
    return ".".join(part for part in (group, project.domain) if part)


def _needs_controller(project: Project, options: ApiOptions, resource: Resource) -> bool:
    if options.controller is not None:
        return options.controller
    if options.resource is False:
        return True
    return not resource.controllers and not any(r.controllers for r in _versions(project, resource))


def _versions(project: Project, resource: Resource) -> list[Resource]:
    """Return the other versions of a kind."""
    return [
        r
        for r in project.resources
        if (r.qualified_group, r.kind) == (resource.qualified_group, resource.kind) and r.version != resource.version
    ]


def _new(project: Project, options: ApiOptions, group: str) -> Resource:
    own = [r for r in project.resources if r.api]
    if not project.multigroup and (others := sorted({r.group for r in own} - {options.group})):
        raise ScaffoldError(
            f"this project has the group {others[0]!r}: run `steersman edit --multigroup` first to add other groups"
        )
    same = [r for r in own if r.qualified_group == group and r.kind == options.kind]
    plural = same[0].plural if same else options.plural or guess_plural(options.kind)
    check_plural(plural)
    for other in own:
        if other.qualified_group != group or other.kind == options.kind:
            continue
        if other.kind.lower() == options.kind.lower():
            raise ScaffoldError(
                f"kind {options.kind!r} conflicts with {other}: they differ only in upper and lower case"
            )
        if other.plural == plural:
            raise ScaffoldError(f"plural {plural!r} is used by {other}: choose another with --plural")
    namespaced = same[0].namespaced if same else options.namespaced is not False
    words = [project.package, "api"]
    if project.multigroup and options.group:
        words.append(module_name(options.group))
    resource = Resource(
        group=options.group, version=options.version, kind=options.kind, domain=project.domain, plural=plural,
        namespaced=namespaced, storage=not any(r.storage for r in same), grouped=project.multigroup,
        path=".".join([*words, options.version, f"{options.kind.lower()}_types"]),
    )  # fmt: skip
    if any(r.path == resource.path for r in own):
        raise ScaffoldError(
            f"{resource} would use the file {resource.path.replace('.', '/')}.py of another group's kind"
        )
    return resource


def _external_resource(project: Project, group: str, version: str, kind: str, external: External) -> Resource:
    """Return the resource of a kind that is defined outside of the project."""
    if external.path:
        for word in external.path.split("."):
            check_module(word, f"--external-api-path {external.path!r}")
        return Resource(
            group=group, version=version, kind=kind, domain=external.domain, plural=guess_plural(kind),
            api=False, path=external.path, grouped=project.multigroup,
        )  # fmt: skip
    info = _builtin(group, version, kind)
    if info is None:
        raise ScaffoldError(
            f"the kind {kind} ({group}/{version}) does not exist: create it with `steersman create api`, or set"
            " --external-api-path to the module of its class (`steersman models` generates one from a CRD)"
        )
    own = "core" if not info.group else info.group
    return Resource(
        group=own, version=version, kind=kind, plural=info.plural, namespaced=info.namespaced, api=False,
        path="steersman.k8s", grouped=project.multigroup,
    )  # fmt: skip


def _builtin(group: str, version: str, kind: str) -> Any:
    from steersman import k8s
    from steersman.models import info_of

    cls = getattr(k8s, kind, None)
    try:
        info = info_of(cls) if isinstance(cls, type) else None
    except (TypeError, AttributeError):
        return None
    wanted = "" if group == "core" else group
    if info is None or info.version != version or info.kind != kind:
        return None
    return info if info.group == wanted or info.group.partition(".")[0] == wanted else None


def _with_controller(project: Project, resource: Resource, options: ApiOptions) -> Resource:
    name = options.controller_name
    if name:
        check_project_name(name)
        check_module(module_name(name), f"controller name {name!r}")
    taken = {declared(r, c): r for r in project.resources for c in r.controllers if r.key != resource.key or c != name}
    if name in resource.controllers:
        if options.force:
            return resource
        raise ScaffoldError(f"{resource} has this controller already; --controller-name NAME adds another")
    namesake = taken.get(resource.kind.lower())
    if not name and namesake is not None and namesake.kind == resource.kind and resource.group:
        name = f"{module_name(resource.group).replace('_', '-')}-{resource.kind.lower()}"
    mine = replace(resource, controllers=(*resource.controllers, name))
    if (other := taken.get(declared(mine, name))) is not None:
        raise ScaffoldError(
            f"a controller named {declared(mine, name)!r} exists already, for {other}: choose another name with"
            " --controller-name NAME"
        )
    modules = {controller_module(r, c) for r in project.resources for c in r.controllers if r.key != mine.key}
    modules |= {controller_module(resource, c) for c in resource.controllers}
    if controller_module(mine, name) in modules:
        raise ScaffoldError(f"{controller_module(mine, name)}.py exists already: choose another --controller-name")
    return mine


def declared(resource: Resource, controller: str) -> str:
    """Return the name of a controller in the operator."""
    return controller or resource.kind.lower()


def controller_module(resource: Resource, controller: str) -> str:
    """Return the module of a controller."""
    return f"{module_name(controller) if controller else resource.stem}_controller"


def delete_api(project: Project, group: str, version: str, kind: str, external: External | None = None) -> Project:
    """Remove a version of a kind with its controllers and webhooks. Raises `ScaffoldError`."""
    resource = _existing(project, group, version, kind, external)
    others = [r for r in _versions(project, resource) if r.api]
    for other in others:
        if version in other.webhooks.spoke:
            raise ScaffoldError(
                f"{other} converts from and to {version}: run `steersman delete webhook --conversion` for it first"
            )
    if resource.api and resource.storage and others:
        raise ScaffoldError(f"{resource} is the storage version: delete {', '.join(r.version for r in others)} first")
    return project.without_resource(resource)


def _existing(project: Project, group: str, version: str, kind: str, external: External | None) -> Resource:
    domains = ["" if group == "core" else group, _own_group(project, group)]
    if external and external.domain:
        domains.append(f"{group}.{external.domain}")
    found = [r for r in project.resources if (r.version, r.kind) == (version, kind)]
    for resource in found:
        if resource.qualified_group in domains or resource.group == group:
            return resource
    have = ", ".join(str(r) for r in project.resources) or "none"
    raise ScaffoldError(f"this project has no {kind} ({group}/{version}); it has {have}")


def create_webhook(project: Project, options: WebhookOptions) -> Project:
    """Add webhooks to a kind of this project, of Kubernetes, or of another project. Raises `ScaffoldError`."""
    check_group(options.group)
    check_version(options.version)
    check_kind(options.kind)
    if not (options.defaulting or options.validation or options.conversion):
        raise ScaffoldError(
            "choose at least one of --defaulting, --programmatic-validation, --conversion (with --spoke VERSION)"
        )
    resource = project.find(_own_group(project, options.group), options.version, options.kind)
    if resource is None:
        foreign = _external_resource(project, options.group, options.version, options.kind, options.external)
        resource = project.find(*foreign.key) or foreign
    had = resource.webhooks
    for option in ("defaulting", "validation"):
        if getattr(options, option) and getattr(had, option) and not options.force:
            raise ScaffoldError(f"{resource} has a {option} webhook already: --force writes it again")
    spoke = _spokes(project, resource, options) if options.conversion or options.spoke else had.spoke
    hooks = Webhooks(
        had.defaulting or options.defaulting,
        had.validation or options.validation,
        had.conversion or options.conversion,
        spoke,
    )
    return project.with_resource(replace(resource, webhooks=hooks))


def _spokes(project: Project, resource: Resource, options: WebhookOptions) -> tuple[str, ...]:
    if not options.conversion:
        raise ScaffoldError("--spoke needs --conversion")
    if not resource.api:
        raise ScaffoldError(
            f"{resource} is not defined in this project: only the project that defines it can convert it"
        )
    if not options.spoke:
        raise ScaffoldError(
            f"--conversion makes {resource.version} the hub: add the other versions with --spoke VERSION"
        )
    others = {r.version: r for r in _versions(project, resource) if r.api}
    for version in options.spoke:
        if version == resource.version:
            raise ScaffoldError(f"--spoke {version}: this version is the hub itself")
        if version not in others:
            raise ScaffoldError(
                f"{resource.kind} has no version {version}: run `steersman create api --group {resource.group}"
                f" --version {version} --kind {resource.kind}` first"
            )
    if hub := next((r for r in others.values() if r.webhooks.conversion), None):
        raise ScaffoldError(f"{hub} is the hub of its kind: add --spoke {options.spoke[0]} to it")
    if resource.webhooks.conversion and set(options.spoke) <= set(resource.webhooks.spoke) and not options.force:
        raise ScaffoldError(f"{resource} converts these versions already: --force writes the converters again")
    return tuple(dict.fromkeys((*resource.webhooks.spoke, *options.spoke)))


def delete_webhook(project: Project, options: WebhookOptions) -> Project:
    """Remove the selected webhooks, or all of the kind. Raises `ScaffoldError`."""
    resource = _existing(project, options.group, options.version, options.kind, options.external)
    had = resource.webhooks
    if not had:
        raise ScaffoldError(f"{resource} has no webhooks")
    named = {o for o in ("defaulting", "validation", "conversion") if getattr(options, o)}
    for option in named:
        if not getattr(had, option):
            raise ScaffoldError(f"{resource} has no {option} webhook")
    gone = named or {"defaulting", "validation", "conversion"}
    left = Webhooks(
        had.defaulting and "defaulting" not in gone,
        had.validation and "validation" not in gone,
        had.conversion and "conversion" not in gone,
        () if "conversion" in gone else had.spoke,
    )
    if not left and not resource.api and not resource.controllers:
        return project.without_resource(resource)
    return project.with_resource(replace(resource, webhooks=left))


def edit(
    project: Project, *, multigroup: bool | None, namespaced: bool | None, description: str | None,
    license: str | None, owner: str | None,
) -> Project:  # fmt: skip
    """Change settings of the whole project. Existing files are not moved."""
    if multigroup is False and len({r.group for r in project.resources if r.api}) > 1:
        raise ScaffoldError("this project has several groups: delete the others before --multigroup=false")
    for what, value in (("description", description), ("license", license), ("owner", owner)):
        if value is not None and ("\n" in value or '"' in value or "\\" in value):
            raise ScaffoldError(f"--{what}: must be one line without quotation marks and backslashes")
    settings = {
        "multigroup": multigroup, "namespaced": namespaced, "description": description, "license": license,
        "owner": owner,
    }  # fmt: skip
    return replace(project, **{key: value for key, value in settings.items() if value is not None})
