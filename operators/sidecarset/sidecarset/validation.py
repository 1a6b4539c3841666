"""Validation of SidecarSets: each error has the field and the solution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from steersman import FieldError, IntOrString
from steersman.models import scaled_value, to_dict

from sidecarset import containers, selectors
from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet, UpdateStrategy
from sidecarset.defaults import with_defaults

__all__ = ["conflicts", "errors_of"]


def errors_of(sidecars: SidecarSet) -> Iterator[FieldError]:
    """Return the errors of one SidecarSet."""
    spec = sidecars.spec
    yield from selectors.errors_of(spec.selector, "spec.selector")
    plain = [to_dict(with_defaults(container)) for container in spec.containers]
    yield from containers.errors_of(plain, "spec.containers")
    yield from _strategy(spec.update_strategy)


def _strategy(strategy: UpdateStrategy) -> Iterator[FieldError]:
    at = "spec.updateStrategy"
    found = list(_amount(strategy.max_unavailable, f"{at}.maxUnavailable"))
    yield from found
    if not found and strategy.max_unavailable in (0, "0%"):
        yield FieldError.invalid(f"{at}.maxUnavailable", strategy.max_unavailable, "must not be 0: no Pod would change")
    yield from _amount(strategy.partition, f"{at}.partition")


def _amount(value: IntOrString, at: str) -> Iterator[FieldError]:
    try:
        number = scaled_value(value, 100, round_up=True)
    except ValueError:
        text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%')"
        yield FieldError.invalid(at, value, text)
        return
    if number < 0:
        yield FieldError.invalid(at, value, "must be greater than or equal to 0")
    elif isinstance(value, str) and number > 100:
        yield FieldError.invalid(at, value, "must not be greater than 100%")


def conflicts(sidecars: SidecarSet, others: Iterable[SidecarSet]) -> Iterator[FieldError]:
    """Return the errors for containers that another SidecarSet with an overlapping selector has by the same name."""
    for other in sorted(others, key=lambda one: one.metadata.name):
        if other.metadata.name == sidecars.metadata.name:
            continue
        if not selectors.can_overlap(sidecars.spec.selector, other.spec.selector):
            continue
        taken = {container.name for container in other.spec.containers}
        for index, container in enumerate(sidecars.spec.containers):
            if container.name in taken:
                text = (
                    f"SidecarSet {other.metadata.name} has a container of this name, and its selector can match"
                    " the same Pods: choose another name, or selectors that exclude each other"
                )
                yield FieldError.invalid(f"spec.containers[{index}].name", container.name, text)
