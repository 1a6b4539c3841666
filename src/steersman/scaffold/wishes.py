"""What `create` and `delete` do to a project, as pure functions from one `Project` to the next.

Each refuses what would leave the project broken, and says what to do instead. Files follow from the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from steersman.models.resource import guess_plural
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
    "ApiWish",
    "External",
    "WebhookWish",
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
    """Where the class of somebody else's kind is; Kubernetes' own are found without."""

    path: str = ""
    """The module to import it from."""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class ApiWish:
    """`create api`; `None` is for what was not said."""

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
class WebhookWish:
    """`create webhook`, and which to take away."""

    group: str
    version: str
    kind: str
    defaulting: bool = False
    validation: bool = False
    conversion: bool = False
    spoke: Sequence[str] = ()
    external: External = External()
    force: bool = False


def create_api(project: Project, wish: ApiWish) -> Project:
    """Add a version of a kind, a controller for it, or both. Raises `ScaffoldError`."""
    check_group(wish.group)
    check_version(wish.version)
    check_kind(wish.kind)
    group = _own_group(project, wish.group)
    found = project.find(group, wish.version, wish.kind)
    resource: Resource
    if wish.resource is False:
        resource = found or _foreign(project, wish.group, wish.version, wish.kind, wish.external)
        if wish.controller is False:
            raise ScaffoldError("neither a resource nor a controller was asked for: there is nothing to create")
    elif found is not None and found.api:
        if wish.resource is None and wish.controller:
            resource = found  # one more controller for a kind that is there
        elif wish.force:
            resource = found
        else:
            raise ScaffoldError(
                f"{found} is there already: --force writes its files anew, --resource=false --controller"
                " --controller-name NAME adds a controller to it"
            )
    else:
        resource = _new(project, wish, group)
    had = {"plural": resource.plural, "namespaced": resource.namespaced}
    for option, wanted in (("plural", wish.plural), ("namespaced", wish.namespaced)):
        if wanted is not None and wanted != had[option]:
            raise ScaffoldError(
                f"--{option}: {resource.kind} has {had[option]!r} already, which is the same in all its versions"
            )
    if _wants_controller(project, wish, resource):
        resource = _with_controller(project, resource, wish)
    return project.with_resource(resource)


def _own_group(project: Project, group: str) -> str:
    return ".".join(part for part in (group, project.domain) if part)


def _wants_controller(project: Project, wish: ApiWish, resource: Resource) -> bool:
    if wish.controller is not None:
        return wish.controller
    if wish.resource is False:
        return True
    return not resource.controllers and not any(r.controllers for r in _versions(project, resource))


def _versions(project: Project, resource: Resource) -> list[Resource]:
    """The other versions of a kind."""
    return [
        r
        for r in project.resources
        if (r.qualified_group, r.kind) == (resource.qualified_group, resource.kind) and r.version != resource.version
    ]


def _new(project: Project, wish: ApiWish, group: str) -> Resource:
    own = [r for r in project.resources if r.api]
    if not project.multigroup and (others := sorted({r.group for r in own} - {wish.group})):
        raise ScaffoldError(
            f"this project has the group {others[0]!r}: `steersman edit --multigroup` lets it have others, too"
        )
    same = [r for r in own if r.qualified_group == group and r.kind == wish.kind]
    plural = same[0].plural if same else wish.plural or guess_plural(wish.kind)
    check_plural(plural)
    for other in own:
        if other.qualified_group != group or other.kind == wish.kind:
            continue
        if other.kind.lower() == wish.kind.lower():
            raise ScaffoldError(f"kind {wish.kind!r} clashes with {other}: they differ in upper and lower case alone")
        if other.plural == plural:
            raise ScaffoldError(f"plural {plural!r} is taken by {other}: choose another with --plural")
    namespaced = same[0].namespaced if same else wish.namespaced is not False
    words = [project.package, "api"]
    if project.multigroup and wish.group:
        words.append(module_name(wish.group))
    resource = Resource(
        group=wish.group, version=wish.version, kind=wish.kind, domain=project.domain, plural=plural,
        namespaced=namespaced, storage=not any(r.storage for r in same), grouped=project.multigroup,
        path=".".join([*words, wish.version, f"{wish.kind.lower()}_types"]),
    )  # fmt: skip
    if any(r.path == resource.path for r in own):
        raise ScaffoldError(f"{resource} would share {resource.path.replace('.', '/')}.py with another group's kind")
    return resource


def _foreign(project: Project, group: str, version: str, kind: str, external: External) -> Resource:
    """A kind that somebody else defines."""
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
            f"there is no {kind} ({group}/{version}): create it with `steersman create api`, or say with"
            " --external-api-path which module has its class (`steersman models` makes one from a CRD)"
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


def _with_controller(project: Project, resource: Resource, wish: ApiWish) -> Resource:
    name = wish.controller_name
    if name:
        check_project_name(name)
        check_module(module_name(name), f"controller name {name!r}")
    taken = {declared(r, c): r for r in project.resources for c in r.controllers if r.key != resource.key or c != name}
    if name in resource.controllers:
        if wish.force:
            return resource
        raise ScaffoldError(f"{resource} has that controller already; --controller-name NAME adds another")
    namesake = taken.get(resource.kind.lower())
    if not name and namesake is not None and namesake.kind == resource.kind and resource.group:
        name = f"{module_name(resource.group).replace('_', '-')}-{resource.kind.lower()}"
    mine = replace(resource, controllers=(*resource.controllers, name))
    if (other := taken.get(declared(mine, name))) is not None:
        raise ScaffoldError(
            f"a controller named {declared(mine, name)!r} is there already, for {other}: --controller-name NAME"
            " gives this one another name"
        )
    modules = {controller_module(r, c) for r in project.resources for c in r.controllers if r.key != mine.key}
    modules |= {controller_module(resource, c) for c in resource.controllers}
    if controller_module(mine, name) in modules:
        raise ScaffoldError(f"there is a {controller_module(mine, name)}.py already: choose another --controller-name")
    return mine


def declared(resource: Resource, controller: str) -> str:
    """The name that the operator knows a controller by."""
    return controller or resource.kind.lower()


def controller_module(resource: Resource, controller: str) -> str:
    """The module that a controller is in."""
    return f"{module_name(controller) if controller else resource.stem}_controller"


def delete_api(project: Project, group: str, version: str, kind: str, external: External | None = None) -> Project:
    """Take a version of a kind away, with its controllers and webhooks. Raises `ScaffoldError`."""
    resource = _there(project, group, version, kind, external)
    others = [r for r in _versions(project, resource) if r.api]
    for other in others:
        if version in other.webhooks.spoke:
            raise ScaffoldError(
                f"{other} converts from and to {version}: `steersman delete webhook --conversion` of it comes first"
            )
    if resource.api and resource.storage and others:
        raise ScaffoldError(
            f"{resource} is the version that is stored: delete {', '.join(r.version for r in others)} first"
        )
    return project.without_resource(resource)


def _there(project: Project, group: str, version: str, kind: str, external: External | None) -> Resource:
    domains = ["" if group == "core" else group, _own_group(project, group)]
    if external and external.domain:
        domains.append(f"{group}.{external.domain}")
    found = [r for r in project.resources if (r.version, r.kind) == (version, kind)]
    for resource in found:
        if resource.qualified_group in domains or resource.group == group:
            return resource
    have = ", ".join(str(r) for r in project.resources) or "none"
    raise ScaffoldError(f"there is no {kind} ({group}/{version}) in this project; it has {have}")


def create_webhook(project: Project, wish: WebhookWish) -> Project:
    """Add webhooks to a kind of this project, of Kubernetes, or of somebody else. Raises `ScaffoldError`."""
    check_group(wish.group)
    check_version(wish.version)
    check_kind(wish.kind)
    if not (wish.defaulting or wish.validation or wish.conversion):
        raise ScaffoldError("say which: --defaulting, --programmatic-validation, --conversion (with --spoke VERSION)")
    resource = project.find(_own_group(project, wish.group), wish.version, wish.kind)
    if resource is None:
        foreign = _foreign(project, wish.group, wish.version, wish.kind, wish.external)
        resource = project.find(*foreign.key) or foreign
    had = resource.webhooks
    for option in ("defaulting", "validation"):
        if getattr(wish, option) and getattr(had, option) and not wish.force:
            raise ScaffoldError(f"{resource} has a webhook for {option} already: --force writes it anew")
    spoke = _spokes(project, resource, wish) if wish.conversion or wish.spoke else had.spoke
    hooks = Webhooks(
        had.defaulting or wish.defaulting, had.validation or wish.validation, had.conversion or wish.conversion, spoke
    )
    return project.with_resource(replace(resource, webhooks=hooks))


def _spokes(project: Project, resource: Resource, wish: WebhookWish) -> tuple[str, ...]:
    if not wish.conversion:
        raise ScaffoldError("--spoke says between which versions to convert: it needs --conversion")
    if not resource.api:
        raise ScaffoldError(f"{resource} is not of this project: only its owner can convert between its versions")
    if not wish.spoke:
        raise ScaffoldError(f"--conversion makes {resource.version} the hub: --spoke VERSION says what meets there")
    others = {r.version: r for r in _versions(project, resource) if r.api}
    for version in wish.spoke:
        if version == resource.version:
            raise ScaffoldError(f"--spoke {version}: that is the hub itself")
        if version not in others:
            raise ScaffoldError(
                f"there is no {version} of {resource.kind}: `steersman create api --group {resource.group} --version"
                f" {version} --kind {resource.kind}` comes first"
            )
    if hub := next((r for r in others.values() if r.webhooks.conversion), None):
        raise ScaffoldError(f"{hub} is the hub of its kind: add --spoke {wish.spoke[0]} to it")
    if resource.webhooks.conversion and set(wish.spoke) <= set(resource.webhooks.spoke) and not wish.force:
        raise ScaffoldError(f"{resource} converts these already: --force writes them anew")
    return tuple(dict.fromkeys((*resource.webhooks.spoke, *wish.spoke)))


def delete_webhook(project: Project, wish: WebhookWish) -> Project:
    """Take webhooks away: those that are named, or all of the kind. Raises `ScaffoldError`."""
    resource = _there(project, wish.group, wish.version, wish.kind, wish.external)
    had = resource.webhooks
    if not had:
        raise ScaffoldError(f"{resource} has no webhooks")
    named = {o for o in ("defaulting", "validation", "conversion") if getattr(wish, o)}
    for option in named:
        if not getattr(had, option):
            raise ScaffoldError(f"{resource} has no webhook for {option}")
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
    """Change what concerns the project as a whole. Files that are there stay where they are."""
    if multigroup is False and len({r.group for r in project.resources if r.api}) > 1:
        raise ScaffoldError("this project has several groups: it stays multi-group until they are deleted")
    for what, value in (("description", description), ("license", license), ("owner", owner)):
        if value is not None and ("\n" in value or '"' in value or "\\" in value):
            raise ScaffoldError(f"--{what}: one line, without quotation marks and backslashes")
    said = {
        "multigroup": multigroup, "namespaced": namespaced, "description": description, "license": license,
        "owner": owner,
    }  # fmt: skip
    return replace(project, **{key: value for key, value in said.items() if value is not None})
