"""Selectors of SidecarSets: matching, validity, and overlap of two of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

from steersman import FieldError, LabelSelector, Selector
from steersman.k8s import Pod
from steersman.models.selectors import EVERYTHING, NOTHING, Requirement, SelectorError, from_label_selector, requirement

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet

__all__ = ["can_overlap", "errors_of", "matches", "selector_of"]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@lru_cache(maxsize=4096)
def selector_of(selector: LabelSelector) -> Selector:
    """Parse a selector; an empty or invalid one matches nothing."""
    try:
        found = from_label_selector(selector)
    except SelectorError:
        return NOTHING
    return NOTHING if found == EVERYTHING else found


def matches(sidecars: SidecarSet, pod: Pod) -> bool:
    """Return whether the selector matches the Pod's labels."""
    return selector_of(sidecars.spec.selector).matches(pod.metadata.labels)


def can_overlap(one: LabelSelector, other: LabelSelector) -> bool:
    """Return whether a Pod can have labels that match both. Exact, because labels are independent."""
    rules = sorted({*selector_of(one).requirements, *selector_of(other).requirements})
    by_label = groupby(rules, key=lambda rule: rule.key)
    return NOTHING not in (selector_of(one), selector_of(other)) and all(
        _satisfiable(list(of_label)) for _, of_label in by_label
    )


def _satisfiable(rules: list[Requirement]) -> bool:
    """Return whether one label can meet all requirements: absent, with a listed value, or with another value."""
    if all(rule.matches({}) for rule in rules):
        return True
    key = rules[0].key
    listed = {value for rule in rules for value in rule.values}
    return any(all(rule.matches({key: value}) for rule in rules) for value in (*listed, _other(listed)))


def _other(listed: set[str]) -> str:
    """Return a value that is none of these."""
    return f"x{max(map(len, listed), default=0)}".ljust(max(map(len, listed), default=0) + 1, "x")


def errors_of(selector: LabelSelector, path: str) -> Iterator[FieldError]:
    """Return the errors of a selector; a selector that matches everything is an error, too."""
    if not selector.match_labels and not selector.match_expressions:
        yield FieldError.required(path, "a SidecarSet must say which Pods it is for: an empty selector matches all")
    for key, value in selector.match_labels.items():
        try:
            requirement(key, "In", (value,))
        except SelectorError as problem:
            yield FieldError.invalid(f"{path}.matchLabels", key, str(problem))
    for index, rule in enumerate(selector.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        if rule.operator not in _OPERATORS:
            yield FieldError.invalid(f"{at}.operator", rule.operator, "not a valid selector operator")
        elif rule.operator in ("In", "NotIn") and not rule.values:
            yield FieldError.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif rule.operator in ("Exists", "DoesNotExist") and rule.values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield FieldError.forbidden(f"{at}.values", detail)
        else:
            try:
                requirement(rule.key, rule.operator, rule.values)
            except SelectorError as problem:
                yield FieldError.invalid(f"{at}.key", rule.key, str(problem))
