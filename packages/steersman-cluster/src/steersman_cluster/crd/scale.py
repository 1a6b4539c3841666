"""The subresource `scale` of custom resources: an `autoscaling/v1` Scale, read from and written to simple paths.

Pure functions of an object; the API server stores the result and updates managed fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from steersman_cluster.cel.gotext import go_value
from steersman_cluster.crd.jsonpath import simple_fields
from steersman_cluster.errors import FieldError, bad_request, field_invalid, internal
from steersman_cluster.objects import Object, dig, meta

__all__ = ["ScalePaths"]

_MAX_INT32 = 2**31 - 1
_GO_TYPES = {
    bool: "bool",
    str: "string",
    float: "float64",
    int: "int64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


class _WrongTypeError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The paths of the replicas and the selector, such as `.spec.replicas`."""

    spec: str
    status: str
    selector: str = ""

    def read(self, obj: Object) -> Object:
        """The Scale of an object; raises a 500 where it has no replicas, as the API server does."""
        scale, known = self._read(obj)
        if not known:
            raise internal(f'the spec replicas field "{self.spec}" does not exist')
        return scale

    def write(self, obj: Object, scale: Object) -> None:
        """Take the replicas of a Scale into the object, in place; raises a 400 where it has none."""
        replicas = dig(scale, "spec", "replicas")
        if replicas is None:
            replicas = 0
        names = simple_fields(self.spec)
        at: Any = obj
        for name in names[:-1]:
            inner: Any = cast(Object, at).setdefault(name, {})
            if not isinstance(inner, dict):
                raise bad_request(f"value cannot be set because {self.spec} is not a map[string]interface{{}}")
            at = cast(Object, inner)
        cast(Object, at)[names[-1]] = replicas
        if version := meta(scale).get("resourceVersion"):
            meta(obj)["resourceVersion"] = version

    def validate(self, obj: Object, *, spec: bool = True) -> list[FieldError]:
        """Return the errors of the replicas and the selector; `spec` includes the desired replicas."""
        found: list[FieldError] = []
        for path in (self.spec, self.status) if spec else (self.status,):
            try:
                count = cast(int, _dig(obj, path, int)) or 0
            except _WrongTypeError as error:
                found.append(field_invalid(path, 0, str(error)))
                continue
            if count < 0:
                found.append(field_invalid(path, count, "should be a non-negative integer"))
            elif count > _MAX_INT32:
                found.append(field_invalid(path, count, f"should be less than or equal to {_MAX_INT32}"))
        if self.selector:
            try:
                _dig(obj, self.selector, str)
            except _WrongTypeError as error:
                found.append(field_invalid(self.selector, "", str(error)))
        return found

    def _read(self, obj: Object) -> tuple[Object, bool]:
        try:
            wanted, current = _dig(obj, self.spec, int), _dig(obj, self.status, int)
            selector = _dig(obj, self.selector, str) if self.selector else None
        except _WrongTypeError as error:
            raise internal(str(error)) from error
        kept = meta(obj)
        names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        status: Object = {"replicas": current or 0}
        if selector:
            status["selector"] = selector
        spec: Object = {"replicas": wanted} if wanted else {}
        scale: Object = {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: kept[name] for name in names if name in kept},
            "spec": spec,
            "status": status,
        }
        return scale, wanted is not None


def _dig(obj: Object, path: str, wanted: type) -> Any:
    """The value at a simple path, `None` where there is none; the errors are apimachinery's."""
    value: Any = obj
    names = simple_fields(path)
    for index, name in enumerate(names):
        if not isinstance(value, dict):
            raise _WrongTypeError(_accessor(names[: index + 1], value, "map[string]interface{}"))
        found = cast(Object, value)
        if name not in found:
            return None
        value = found[name]
    if type(value) is not wanted:
        raise _WrongTypeError(_accessor(names, value, _GO_TYPES[wanted]))
    return value


def _accessor(names: list[str], value: Any, wanted: str) -> str:
    path = ".".join(names)
    return f".{path} accessor error: {_shown(value)} is of the type {_go_type(value)}, expected {wanted}"


def _shown(value: Any) -> str:
    return "<nil>" if value is None else value if isinstance(value, str) else go_value(value)


def _go_type(value: Any) -> str:
    return "<nil>" if value is None else _GO_TYPES[type(value)]
