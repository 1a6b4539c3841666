"""The exceptions with which a handler denies a request: `DeniedError`, and `Invalid` with errors of fields.

The texts are those of the API server (`k8s.io/apimachinery/pkg/util/validation/field`), so that errors of a webhook
look like those of the server.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["AdmissionRefusedError", "DeniedError", "FieldError", "Invalid"]

_NOTHING: Final = object()


class FieldError(NamedTuple):
    """An error of one field; `field` is its path in the manifest, such as `spec.containers[0].image`.

    Create it with `invalid`, `required`, `duplicate`, `forbidden` or `not_supported`.
    """

    field: str
    reason: str
    message: str

    @classmethod
    def invalid(cls, field: str, value: Any, detail: str) -> FieldError:
        """Return an error for a value that is not allowed. The value is quoted, so it must not be secret."""
        return cls(field, "FieldValueInvalid", f"Invalid value: {_quoted(value)}: {detail}")

    @classmethod
    def required(cls, field: str, detail: str = "") -> FieldError:
        """Return an error for a field that is missing or empty."""
        return cls(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")

    @classmethod
    def duplicate(cls, field: str, value: Any) -> FieldError:
        """Return an error for a value that occurs twice."""
        return cls(field, "FieldValueDuplicate", f"Duplicate value: {_quoted(value)}")

    @classmethod
    def forbidden(cls, field: str, detail: str) -> FieldError:
        """Return an error for a field that must not be set or changed."""
        return cls(field, "FieldValueForbidden", f"Forbidden: {detail}")

    @classmethod
    def not_supported(cls, field: str, value: Any, supported: Sequence[Any]) -> FieldError:
        """Return an error for a value that is not one of the supported values."""
        known = ", ".join(_quoted(v) for v in supported)
        return cls(field, "FieldValueNotSupported", f"Unsupported value: {_quoted(value)}: supported values: {known}")

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class AdmissionRefusedError(Exception):
    """Base class of `DeniedError` and `Invalid`: the request is denied, and the client gets the message."""

    code: int = 403
    reason: str = "Forbidden"
    errors: tuple[FieldError, ...] = ()


class DeniedError(AdmissionRefusedError):
    """The request is denied with a 403, or with another 4xx by `code` and `reason`.

    Raises ValueError for a code that is not a 4xx.
    """

    def __init__(self, message: str, *, code: int = 403, reason: str = "Forbidden") -> None:
        if not 400 <= code < 500:
            raise ValueError(f"DeniedError(code={code}): the code must be a 4xx")
        super().__init__(message)
        self.code = code
        self.reason = reason


class Invalid(AdmissionRefusedError):  # noqa: N818 - the reason of the API
    """Fields of the object are invalid: a 422 with a cause for each. Raises ValueError without any error."""

    code = 422
    reason = "Invalid"

    def __init__(self, *errors: FieldError | Iterable[FieldError]) -> None:
        flat: list[FieldError] = []
        for error in errors:
            flat.extend([error] if isinstance(error, FieldError) else error)
        if not flat:
            raise ValueError("Invalid(): pass at least one FieldError")
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
