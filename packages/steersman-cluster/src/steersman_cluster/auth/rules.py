"""The arithmetic of RBAC rules: what one allows, what a set of them covers, how they are described.

Pure functions on `PolicyRule`s as they are stored. The semantics are those of the API server's `rbac/validation`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from steersman_cluster.auth.attributes import Attributes
from steersman_cluster.json_access import get_object, get_objects, get_strings
from steersman_cluster.objects import Object, labels_of

__all__ = ["aggregate", "allows", "breakdown", "compact", "covers", "describe", "missing", "selects"]


def allows(rule: Object, attributes: Attributes) -> bool:
    """Return whether one RBAC rule covers a request: verb and resource with its name, or URL path."""
    if not attributes.is_resource:
        return verb_matches(rule, attributes.verb) and any(
            _url_matches(pattern, attributes.path) for pattern in rule.get("nonResourceURLs") or ()
        )
    names = rule.get("resourceNames")
    return allows_resource(
        rule, attributes.verb, attributes.group, attributes.resource, attributes.subresource
    ) and bool(not names or attributes.name in names)


def allows_resource(rule: Object, verb: str, group: str, resource: str, subresource: str) -> bool:
    """Return whether a rule allows a verb on a resource, whatever names it is limited to."""
    groups = rule.get("apiGroups") or ()
    if not (group in groups or "*" in groups) or not verb_matches(rule, verb):
        return False
    resources = rule.get("resources") or ()
    if "*" in resources:
        return True
    if not subresource:
        return resource in resources
    return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def verb_matches(rule: Object, verb: str) -> bool:
    """Return whether a rule lists the verb, or `*`."""
    verbs = rule.get("verbs") or ()
    return verb in verbs or "*" in verbs


def _url_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def breakdown(rule: Object) -> list[Object]:
    """A rule as many rules of one verb, one resource, one group and at most one name each."""
    verbs = rule.get("verbs") or ()
    names = rule.get("resourceNames") or ()
    pieces: list[Object] = []
    for group, resource, verb in product(rule.get("apiGroups") or (), rule.get("resources") or (), verbs):
        piece: Object = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        pieces.extend({**piece, "resourceNames": [name]} for name in names)
        if not names:
            pieces.append(piece)
    pieces.extend(
        {"nonResourceURLs": [url], "verbs": [verb]} for url, verb in product(rule.get("nonResourceURLs") or (), verbs)
    )
    return pieces


def covers(owner: Object, piece: Object) -> bool:
    """Return whether `owner` allows all that `piece` (as `breakdown` makes them) allows."""
    return (
        _has(owner.get("verbs"), piece["verbs"][0])
        and all(_has(owner.get("apiGroups"), group) for group in piece.get("apiGroups") or ())
        and all(_covers_resource(owner.get("resources") or (), item) for item in piece.get("resources") or ())
        and all(
            any(_covers_url(pattern, url) for pattern in owner.get("nonResourceURLs") or ())
            for url in piece.get("nonResourceURLs") or ()
        )
        and _covers_name(owner.get("resourceNames"), piece.get("resourceNames"))
    )


def _has(values: Sequence[str] | None, value: str) -> bool:
    return bool(values) and ("*" in values or value in values)


def _covers_resource(owned: Sequence[str], wanted: str) -> bool:
    if "*" in owned or wanted in owned:
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"*/{subresource}" in owned


def _covers_url(owned: str, wanted: str) -> bool:
    return owned == wanted or (owned.endswith("*") and wanted.startswith(owned.rstrip("*")))


def _covers_name(owned: Sequence[str] | None, wanted: Sequence[str] | None) -> bool:
    if not owned:
        return True
    return bool(wanted) and wanted[0] in owned


def missing(owned: Iterable[Object], wanted: Iterable[Object]) -> list[Object]:
    """Return the parts of `wanted` that `owned` does not cover; empty if none."""
    mine = list(owned)
    return [piece for rule in wanted for piece in breakdown(rule) if not any(covers(rule, piece) for rule in mine)]


def compact(pieces: Iterable[Object]) -> list[Object]:
    """Join rules that differ only in their verb, for shorter texts."""
    joined: dict[tuple[str, str, str | None], Object] = {}
    others: list[Object] = []
    for piece in pieces:
        groups, resources, names = (
            get_strings(piece, "apiGroups"),
            get_strings(piece, "resources"),
            get_strings(piece, "resourceNames"),
        )
        if not groups or not resources or len(groups) != 1 or len(resources) != 1 or len(names) > 1:
            others.append(piece)
            continue
        key = (groups[0], resources[0], names[0] if names else None)
        if key in joined:
            joined[key]["verbs"] = [*joined[key]["verbs"], *piece["verbs"]]
        else:
            joined[key] = dict(piece)
    return [*others, *joined.values()]


_SHOWN = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def describe(rule: Object) -> str:
    """A rule in one line: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`."""
    shown_fields = [f"{shown}:{_list(rule[name])}" for shown, name in _SHOWN if rule.get(name)]
    return f"{{{', '.join(shown_fields)}}}"


def _list(values: Sequence[str]) -> str:
    return f"[{' '.join(json.dumps(value, ensure_ascii=False) for value in values)}]"


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a `LabelSelector` selects labels; the empty one selects all. Raises ValueError for a bad operator."""
    for key, value in get_object(selector, "matchLabels").items():
        if labels.get(key) != value:
            return False
    for requirement in get_objects(selector, "matchExpressions"):
        key, values = requirement.get("key") or "", get_strings(requirement, "values")
        match requirement.get("operator"):
            case "In":
                holds = key in labels and labels[key] in values
            case "NotIn":
                holds = key not in labels or labels[key] not in values
            case "Exists":
                holds = key in labels
            case "DoesNotExist":
                holds = key not in labels
            case other:
                raise ValueError(f"{json.dumps(other)} is not a valid label selector operator")
        if not holds:
            return False
    return True


def aggregate(rule: Object, name: str, roles: Iterable[Object]) -> list[Object]:
    """The rules of the ClusterRole `name` by its `aggregationRule`: those of all that it selects, each once.

    Roles come in by name, the rules of each in its order, as the real controller joins them. The role itself never
    counts.
    """
    joined: list[Object] = []
    all_roles = list(roles)
    for selector in rule.get("clusterRoleSelectors") or ():
        found = [role for role in all_roles if selects(selector, labels_of(role))]
        for role in sorted(found, key=lambda item: item["metadata"]["name"]):
            if role["metadata"]["name"] == name:
                continue
            joined.extend(item for item in role.get("rules") or () if item not in joined)
    return joined
