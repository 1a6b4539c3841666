"""How a handler refuses: `DeniedError` for what policy forbids, `Invalid` for fields that are wrong, each with its way
out.

Texts follow the API server's own (`k8s.io/apimachinery/pkg/util/validation/field`), so that what a webhook says of a
field reads like what the server says of others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["AdmissionRefusedError", "DeniedError", "FieldError", "Invalid"]

_NOTHING: Final = object()


class FieldError(NamedTuple):
    """What is wrong with one field; `field` is its path as in the manifest, such as `spec.containers[0].image`.

    Made by `invalid`, `required`, `duplicate`, `forbidden` and `not_supported`.
    """

    field: str
    reason: str
    message: str

    @classmethod
    def invalid(cls, field: str, value: Any, detail: str) -> FieldError:
        """The value is not allowed; it is quoted, so it must be no secret."""
        return cls(field, "FieldValueInvalid", f"Invalid value: {_quoted(value)}: {detail}")

    @classmethod
    def required(cls, field: str, detail: str = "") -> FieldError:
        """The field is missing or empty."""
        return cls(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")

    @classmethod
    def duplicate(cls, field: str, value: Any) -> FieldError:
        """The value stands there a second time."""
        return cls(field, "FieldValueDuplicate", f"Duplicate value: {_quoted(value)}")

    @classmethod
    def forbidden(cls, field: str, detail: str) -> FieldError:
        """The field must not be set, or not be changed."""
        return cls(field, "FieldValueForbidden", f"Forbidden: {detail}")

    @classmethod
    def not_supported(cls, field: str, value: Any, supported: Sequence[Any]) -> FieldError:
        """The value is none of those there are."""
        known = ", ".join(_quoted(v) for v in supported)
        return cls(field, "FieldValueNotSupported", f"Unsupported value: {_quoted(value)}: supported values: {known}")

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class AdmissionRefusedError(Exception):
    """The base of `DeniedError` and `Invalid`: the request is refused, and the client is told why."""

    code: int = 403
    reason: str = "Forbidden"
    errors: tuple[FieldError, ...] = ()


class DeniedError(AdmissionRefusedError):
    """The request is not allowed, whatever its fields: a 403, or another 4xx by `code` and `reason`.

    Raises ValueError for a code that is no 4xx.
    """

    def __init__(self, message: str, *, code: int = 403, reason: str = "Forbidden") -> None:
        if not 400 <= code < 500:
            raise ValueError(f"DeniedError(code={code}): a refusal is a 4xx")
        super().__init__(message)
        self.code = code
        self.reason = reason


class Invalid(AdmissionRefusedError):  # noqa: N818 - the reason of the API
    """Fields of the object are wrong: a 422 with a cause for each. Raises ValueError without any."""

    code = 422
    reason = "Invalid"

    def __init__(self, *errors: FieldError | Iterable[FieldError]) -> None:
        flat: list[FieldError] = []
        for error in errors:
            flat.extend([error] if isinstance(error, FieldError) else error)
        if not flat:
            raise ValueError("Invalid(): say which field is wrong, with at least one FieldError")
        self.errors = tuple(flat)
        texts = list(dict.fromkeys(str(error) for error in flat))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _quoted(value: Any) -> str:
    from steersman.models import Model, to_dict

    if isinstance(value, Model):
        value = to_dict(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:
        return json.dumps(str(value), ensure_ascii=False)
