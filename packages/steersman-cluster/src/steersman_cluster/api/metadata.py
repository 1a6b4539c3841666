"""Changes of ObjectMeta by every write: namespace, name, system fields, owners, versions.

Follows apiserver's `registry/rest`; the rules of validation are `kinds.meta`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from steersman_cluster.api.interfaces import ResourceType
from steersman_cluster.errors import APIError, bad_request
from steersman_cluster.objects import Object

__all__ = [
    "check_name",
    "fill_system_fields",
    "generate_name",
    "has_version",
    "no_unique_name",
    "place",
    "version_of",
    "version_on_create",
    "wipe_system_fields",
    "without_repeated_owners",
]

_LONGEST_BASE: Final = 58
_MAX_NAME_ATTEMPTS: Final = 8
_SYSTEM: Final = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_REPEATED: Final = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


def wipe_system_fields(metadata: Object) -> None:
    """Remove the fields of a new object that clients cannot set."""
    for name in _SYSTEM:
        metadata.pop(name, None)


def fill_system_fields(metadata: Object, uid: str, now: str) -> None:
    """Set the system fields of a new object, after admission."""
    metadata.pop("deletionTimestamp", None)
    metadata.pop("deletionGracePeriodSeconds", None)
    metadata.pop("selfLink", None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now


def place(resource: ResourceType, namespace: str, metadata: Object) -> None:
    """Set the namespace of the path. Raises `APIError` (400) if the object has another."""
    given = metadata.get("namespace")
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    if not given:
        metadata["namespace"] = namespace
    elif given != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def check_name(name: str, metadata: Object) -> None:
    """The name of the path is the object's. Raises a 400."""
    given = metadata.get("name")
    if not given:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def generate_name(metadata: Object, random: Callable[[int], str], taken: Callable[[str], bool]) -> bool:
    """Give an object that only has a generateName a free name; whether none was found."""
    base = metadata.get("generateName")
    if not base or metadata.get("name"):
        return False
    for _ in range(_MAX_NAME_ATTEMPTS):
        metadata["name"] = name = str(base)[:_LONGEST_BASE] + random(5)
        if not taken(name):
            return False
    return True


def no_unique_name(resource: ResourceType, name: str) -> APIError:
    """The 409 for a generateName under which everything is taken."""
    what = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    text = f'{what} "{name}" already exists, the server was not able to generate a unique name for the object'
    details: Object = {"name": name, "group": resource.group, "kind": resource.plural, "retryAfterSeconds": 1}
    if not resource.group:
        del details["group"]
    return APIError(409, "AlreadyExists", text, details, (("Retry-After", "1"),))


def version_of(metadata: Object) -> int:
    """Return the resourceVersion of a client's object, 0 for none. Raises `APIError` (400) for an invalid one."""
    text = metadata.get("resourceVersion")
    if not text:
        return 0
    try:
        if str(text).isascii() and str(text).isdecimal():
            return int(text)
    except ValueError:  # more digits than Python converts
        pass
    raise bad_request(f'strconv.ParseUint: parsing "{text}": invalid syntax')


def has_version(metadata: Object) -> bool:
    """Return whether a new object has a resourceVersion; an invalid one is ignored."""
    text = str(metadata.get("resourceVersion") or "")
    return text.isascii() and text.isdecimal() and text.strip("0") != ""


def version_on_create() -> APIError:
    """The refusal of a new object that has a resourceVersion."""
    return bad_request("resourceVersion should not be set on objects to be created")


def without_repeated_owners(metadata: Object, *, admitted: bool = False) -> tuple[str, ...]:
    """Drop owner references that are there twice, in place; a warning where there were any."""
    owners = cast("list[Any] | None", metadata.get("ownerReferences"))
    if not owners or len(owners) < 2:
        return ()
    kept: list[Any] = []
    repeated: list[str] = []
    for owner in owners:
        if owner in kept:
            repeated.append(str(owner.get("uid") or ""))
        else:
            kept.append(owner)
    if not repeated:
        return ()
    metadata["ownerReferences"] = kept
    return (_REPEATED.format(" after mutating admission happens" if admitted else "", ", ".join(repeated)),)
