"""Checks of single values at a field's path: names, labels, selectors, ports, addresses, quantities.

Each check takes the path and the value and returns the errors with the API server's texts, in its order. Checks do not
change values and do not raise. The rules themselves are in `formats`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from steersman.models import Quantity
from steersman_cluster.errors import (
    ErrorType,
    FieldError,
    field_forbidden,
    field_invalid,
    not_supported,
    required,
)
from steersman_cluster.kinds import formats
from steersman_cluster.objects import Object, Path

__all__ = [
    "amount",
    "annotation_map",
    "check",
    "cidr",
    "conditions",
    "dns1035_label",
    "dns_label",
    "dns_subdomain",
    "duplicates",
    "enum",
    "immutable",
    "in_range",
    "int_or_percent",
    "ip_address",
    "label_key",
    "label_selector",
    "label_value",
    "labels",
    "non_negative",
    "not_found",
    "path_segment",
    "percent_at_most_100",
    "port_name",
    "port_number",
    "positive",
    "qualified_name",
    "quantity",
    "too_long",
]

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
ANNOTATIONS_LIMIT = 262144
"""Bytes of all keys and values of annotations together."""


def check(rule: formats.Rule, path: str, value: str) -> list[FieldError]:
    """Return one field error for each error of a rule."""
    return [field_invalid(path, value, text) for text in rule(value)]


def dns_subdomain(path: str, value: str) -> list[FieldError]:
    """Return the errors of a DNS subdomain (RFC 1123)."""
    return check(formats.dns_subdomain, path, value)


def dns_label(path: str, value: str) -> list[FieldError]:
    """Return the errors of a DNS label (RFC 1123)."""
    return check(formats.dns_label, path, value)


def dns1035_label(path: str, value: str) -> list[FieldError]:
    """Return the errors of a DNS label (RFC 1035)."""
    return check(formats.dns1035_label, path, value)


def label_key(path: str, value: str) -> list[FieldError]:
    """Return field errors for a value that is not a qualified name (`domain/name`)."""
    return check(formats.label_key, path, value)


qualified_name = label_key


def label_value(path: str, value: str) -> list[FieldError]:
    """Return field errors for a value that is not valid as a label (63 characters at most)."""
    return check(formats.label_value, path, value)


def path_segment(path: str, value: str) -> list[FieldError]:
    """Return the errors of a name that is a segment of a URL path."""
    return check(formats.path_segment, path, value)


def port_name(path: str, value: str) -> list[FieldError]:
    """Return field errors for a value that is not an IANA service name (15 characters at most)."""
    return check(formats.port_name, path, value)


def port_number(path: str, value: int) -> list[FieldError]:
    """Return an error if a number is not a port from 1 to 65535."""
    return in_range(path, value, 1, 65535)


def ip_address(path: str, value: str) -> list[FieldError]:
    """An address in any notation; for fields older than strict validation, which are nearly all."""
    return check(formats.ip_address, path, value)


def cidr(path: str, value: str) -> list[FieldError]:
    """Return the errors of a CIDR block."""
    return check(formats.cidr, path, value)


def in_range(path: str, value: int, low: int, high: int) -> list[FieldError]:
    """Return an error if a number is outside of the bounds, which are allowed values."""
    return [field_invalid(path, value, text) for text in formats.in_range(value, low, high)]


def non_negative(path: str, value: int) -> list[FieldError]:
    """Return an error if a number is negative."""
    return [field_invalid(path, value, NOT_NEGATIVE)] if value < 0 else []


def positive(path: str, value: int) -> list[FieldError]:
    """Return an error if a number is not positive."""
    return [field_invalid(path, value, "must be greater than 0")] if value <= 0 else []


def enum(path: str, value: Any, supported: Sequence[str]) -> list[FieldError]:
    """A value of a closed set; `supported` in the order the API server shows."""
    return [] if value in supported else [not_supported(path, value, supported)]


def immutable(path: str, new: Any, old: Any) -> list[FieldError]:
    """Empty lists, maps and null count as equal, as they do for the API server."""
    return [] if (new or None) == (old or None) or new == old else [field_invalid(path, new, IMMUTABLE)]


def too_long(path: str, most: int) -> FieldError:
    """Bytes; the value is never shown."""
    unit = "byte" if most == 1 else "bytes"
    return FieldError(ErrorType.TOO_LONG, path, detail=f"may not be more than {most} {unit}")


def not_found(path: str, value: Any) -> FieldError:
    """Return the error of a reference to an unknown value."""
    return FieldError(ErrorType.NOT_FOUND, path, value)


def duplicates(path: Path, values: Iterable[Any]) -> list[FieldError]:
    """A `Duplicate value` for each item that came before."""
    seen: list[Any] = []
    found: list[FieldError] = []
    for index, value in enumerate(values):
        if value in seen:
            found.append(FieldError(ErrorType.DUPLICATE, path.at(index), value))
        else:
            seen.append(value)
    return found


def labels(path: str, values: Mapping[str, str] | None) -> list[FieldError]:
    """Return field errors for invalid keys and values of a label map."""
    found: list[FieldError] = []
    for key, value in sorted(values.items()) if values else ():
        found += check(formats.label_key, path, key)
        found += check(formats.label_value, path, value or "")
    return found


def annotation_map(path: str, values: Mapping[str, str] | None) -> list[FieldError]:
    """Keys as labels' keys but in any case; 256 KiB of keys and values at most."""
    found: list[FieldError] = []
    size = 0
    for key, value in values.items() if values else ():
        size += len(key) + len(value or "")
        found += [field_invalid(path, key, text) for text in formats.label_key(key.lower())]
    if values and size * 4 > ANNOTATIONS_LIMIT:
        size = sum(len(key.encode()) + len((value or "").encode()) for key, value in values.items())
        if size > ANNOTATIONS_LIMIT:
            found.append(too_long(path, ANNOTATIONS_LIMIT))
    return found


def label_selector(path: Path, selector: Object | None, *, values_checked: bool = True) -> list[FieldError]:
    """`matchLabels` and `matchExpressions`; a missing selector is fine here."""
    if not selector:
        return []
    found = labels(path / "matchLabels", selector.get("matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        found += _requirement((path / "matchExpressions").at(index), expression, values_checked=values_checked)
    return found


def _requirement(path: Path, expression: Object, *, values_checked: bool) -> list[FieldError]:
    operator, values = expression.get("operator") or "", cast(list[str], expression.get("values") or [])
    found: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(field_forbidden(path / "values", text))
    else:
        found.append(field_invalid(path / "operator", operator, "not a valid selector operator"))
    found += label_key(path / "key", expression.get("key") or "")
    if values_checked:
        for index, value in enumerate(values):
            found += label_value((path / "values").at(index), value)
    return found


def int_or_percent(path: str, value: int | str) -> list[FieldError]:
    """A count of at least 0, or a percentage; above 100% is for `percent_at_most_100`."""
    if isinstance(value, str):
        return check(formats.percent, path, value)
    return non_negative(path, value)


def percent_at_most_100(path: str, value: int | str) -> list[FieldError]:
    """Return an error if a percentage exceeds 100."""
    if isinstance(value, str) and not formats.percent(value) and int(value[:-1]) > 100:
        return [field_invalid(path, value, "must not be greater than 100%")]
    return []


def amount(value: Any) -> Quantity | None:
    """The quantity a field holds; `None` where it is none, which decoding has already refused."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return Quantity(value if isinstance(value, str) else repr(value))
    except ValueError:
        return None


def quantity(path: str, value: Any) -> list[FieldError]:
    """An amount of at least 0, shown in its canonical form."""
    found = amount(value)
    if found is not None and found < 0:
        return [field_invalid(path, str(found), NOT_NEGATIVE)]
    return []


def conditions(path: Path, items: Sequence[Object] | None) -> list[FieldError]:
    """`metav1.Condition`s: types are unique and qualified, status is True, False or Unknown."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(items or ()):
        at, kind = path.at(index), item.get("type") or ""
        if kind in seen:
            found.append(FieldError(ErrorType.DUPLICATE, at / "type", kind))
        seen.add(kind)
        found += label_key(at / "type", kind)
        found += enum(at / "status", item.get("status") or "", ("False", "True", "Unknown"))
        if (generation := item.get("observedGeneration") or 0) < 0:
            found.append(field_invalid(at / "observedGeneration", generation, "must be greater than or equal to zero"))
        if not item.get("lastTransitionTime"):
            found.append(required(at / "lastTransitionTime"))
        found += _reason(at / "reason", item.get("reason") or "")
    return found


_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'"
)


def _reason(path: str, reason: str) -> list[FieldError]:
    if not reason:
        return [required(path)]
    if re.fullmatch(_REASON, reason):
        return [too_long(path, 1024)] if len(reason) > 1024 else []
    examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
    return [field_invalid(path, reason, formats.regex_hint(_REASON_TEXT, _REASON, *examples))]
