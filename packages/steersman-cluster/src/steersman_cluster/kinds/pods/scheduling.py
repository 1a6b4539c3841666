"""Validation of affinity, topology spread constraints and tolerations."""

from __future__ import annotations

from collections.abc import Sequence

from steersman_cluster.errors import (
    FieldError,
    duplicate,
    field_forbidden,
    field_invalid,
    not_supported,
    required,
)
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds import formats
from steersman_cluster.kinds import names as check
from steersman_cluster.objects import Object, Path

__all__ = ["affinity_errors", "spread_errors", "toleration_errors"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WEIGHT = "must be in the range 1-100"


def affinity_errors(found: list[FieldError], affinity: Object, path: Path) -> None:
    """Affinity to nodes, to Pods, and against Pods."""
    if (nodes := affinity.get("nodeAffinity")) is not None:
        _node_affinity(found, nodes, path / "nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if (pods := affinity.get(kind)) is None:
            continue
        for index, term in enumerate(pods.get(_REQUIRED) or ()):
            _pod_term(found, term, (path / kind / _REQUIRED).at(index))
        for index, weighted in enumerate(pods.get(_PREFERRED) or ()):
            at = (path / kind / _PREFERRED).at(index)
            _weight(found, weighted, at)
            _pod_term(found, weighted.get("podAffinityTerm") or {}, at / "podAffinityTerm")


def _weight(found: list[FieldError], weighted: Object, path: Path) -> None:
    if not 1 <= (weight := weighted.get("weight") or 0) <= 100:
        found.append(field_invalid(path / "weight", weight, _WEIGHT))


def _node_affinity(found: list[FieldError], affinity: Object, path: Path) -> None:
    if (selector := affinity.get(_REQUIRED)) is not None:
        terms: Sequence[Object] = get_list(selector, "nodeSelectorTerms")
        at = path / _REQUIRED / "nodeSelectorTerms"
        if not terms:
            found.append(required(at, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            _node_term(found, term, at.at(index), values_checked=True)
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        at = (path / _PREFERRED).at(index)
        _weight(found, weighted, at)
        _node_term(found, weighted.get("preference") or {}, at / "preference", values_checked=False)


def _node_term(found: list[FieldError], term: Object, path: Path, *, values_checked: bool) -> None:
    for index, item in enumerate(get_list(term, "matchExpressions")):
        _node_requirement(found, item, (path / "matchExpressions").at(index), values_checked=values_checked)
    for index, item in enumerate(get_list(term, "matchFields")):
        _node_field(found, item, (path / "matchFields").at(index))


def _node_requirement(found: list[FieldError], item: Object, path: Path, *, values_checked: bool) -> None:
    operator, values = item.get("operator") or "", get_list(item, "values")
    if operator in ("In", "NotIn"):
        if not values:
            found.append(required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(field_forbidden(path / "values", text))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            found.append(required(path / "values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        found.append(field_invalid(path / "operator", operator, "not a valid selector operator"))
    found += check.label_key(path / "key", item.get("key") or "")
    if values_checked:
        for index, value in enumerate(values):
            found += check.label_value((path / "values").at(index), value)


def _node_field(found: list[FieldError], item: Object, path: Path) -> None:
    operator, values, key = item.get("operator") or "", get_list(item, "values"), item.get("key") or ""
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            found.append(required(path / "values", text))
    else:
        found.append(field_invalid(path / "operator", operator, "not a valid selector operator"))
    if key != "metadata.name":
        found.append(field_invalid(path / "key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        found += check.dns_subdomain((path / "values").at(index), value)


def _pod_term(found: list[FieldError], term: Object, path: Path) -> None:
    found += check.label_selector(path / "labelSelector", term.get("labelSelector"))
    found += check.label_selector(path / "namespaceSelector", term.get("namespaceSelector"))
    for name in get_list(term, "namespaces"):
        found += check.dns_label(path / "namespace", name)
    _label_keys(found, term, path)
    topology = term.get("topologyKey") or ""
    if not topology:
        found.append(required(path / "topologyKey", "can not be empty"))
    found += check.label_key(path / "topologyKey", topology)


def _label_keys(found: list[FieldError], term: Object, path: Path) -> None:
    """Return the errors for label keys that are in the selector as well, or in both lists."""
    match, mismatch = get_list(term, "matchLabelKeys"), get_list(term, "mismatchLabelKeys")
    if not match and not mismatch:
        return
    selector = term.get("labelSelector")
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            found.append(field_forbidden(path / field, "must not be specified when labelSelector is not set"))
            continue
        for index, key in enumerate(keys):
            found += check.label_key((path / field).at(index), key)
    places = {key: index for index, key in enumerate(match)}
    given: Object = selector or {}
    seen: set[str] = set(get_object(given, "matchLabels"))
    for item in get_list(given, "matchExpressions"):
        key = item.get("key") or ""
        if key in places and key in seen:
            # The path lacks the field's name in the API server's answers too.
            found.append(field_invalid(path.at(places[key]), key, "exists in both matchLabelKeys and labelSelector"))
        seen.add(key)
    text = "exists in both matchLabelKeys and mismatchLabelKeys"
    found += [
        field_invalid((path / "matchLabelKeys").at(index), key, text)
        for index, key in enumerate(match)
        if key in mismatch
    ]


def spread_errors(found: list[FieldError], constraints: Sequence[Object], path: Path) -> None:
    """Constraints of how Pods spread over a topology."""
    for index, item in enumerate(constraints):
        at = path.at(index)
        topology, action = item.get("topologyKey") or "", item.get("whenUnsatisfiable") or ""
        found += _positive(at / "maxSkew", item.get("maxSkew") or 0)
        if not topology:
            found.append(required(at / "topologyKey", "can not be empty"))
        found += check.enum(at / "whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        for other in constraints[index + 1 :]:
            if (other.get("topologyKey") or "", other.get("whenUnsatisfiable") or "") == (topology, action):
                found.append(duplicate(at / "{topologyKey, whenUnsatisfiable}", f"{{{topology}, {action}}}"))
                break
        if (least := item.get("minDomains")) is not None:
            found += _positive(at / "minDomains", least)
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                found.append(field_invalid(at / "minDomains", least, text))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if (policy := item.get(field)) is not None:
                found += check.enum(at / field, policy, ("Honor", "Ignore"))
        _label_keys(found, item, at)
        found += check.label_selector(at / "labelSelector", item.get("labelSelector"))


def _positive(path: Path, value: int) -> list[FieldError]:
    return [field_invalid(path, value, "must be greater than zero")] if value <= 0 else []


def toleration_errors(found: list[FieldError], tolerations: Sequence[Object], path: Path) -> None:
    """Append the errors of tolerations to `found`: keys, operators, effects, seconds."""
    for index, item in enumerate(tolerations):
        key, operator, effect = item.get("key") or "", item.get("operator") or "", item.get("effect") or ""
        value = item.get("value") or ""
        timed = item.get("tolerationSeconds") is not None
        plain = operator in ("Exists", "Equal", "") and not value and effect in ("", *_EFFECTS)
        if key and plain and (not timed or effect == "NoExecute"):
            found += check.label_key(path.at(index) / "key", key)
            continue
        at = path.at(index)
        if key:
            found += check.label_key(at / "key", key)
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(field_invalid(at / "operator", operator, text))
        if timed and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(field_invalid(at / "effect", effect, text))
        _toleration_value(found, operator, value, at)
        if effect:
            found += check.enum(at / "effect", effect, _EFFECTS)


def _toleration_value(found: list[FieldError], operator: str, value: str, path: Path) -> None:
    if operator in ("Equal", ""):
        if texts := formats.label_value(value):
            found.append(field_invalid(path / "operator", value, ";".join(texts)))
    elif operator == "Exists":
        if value:
            found.append(field_invalid(path / "operator", value, "value must be empty when `operator` is 'Exists'"))
    elif operator in ("Lt", "Gt"):
        found.append(not_supported(path / "operator", operator, ("Equal", "Exists", "Lt", "Gt")))
    else:
        found += check.enum(path / "operator", operator, ("Equal", "Exists"))
