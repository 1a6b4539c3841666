"""The attributes of a request for authorization, and the text of its refusal.

The module contains values only. Texts follow the API server's `responsewriters.ForbiddenStatusError`.
"""

from __future__ import annotations

import json

import msgspec

from steersman_cluster.errors import APIError, forbidden
from steersman_cluster.strategy import User

__all__ = ["Attributes", "forbidden_error", "quoted"]


class Attributes(msgspec.Struct, frozen=True):
    """A verb on a resource, or on a path where `resource` is empty (`path` is then set)."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_resource(self) -> bool:
        """Return whether a resource is asked for, not a path."""
        return not self.path


def quoted(text: str) -> str:
    """`text` as Go's `%q` prints it, for the texts that users meet."""
    return json.dumps(text, ensure_ascii=False)


def forbidden_error(user: User, attributes: Attributes, reason: str = "") -> APIError:
    """The 403 for a request that no rule allows; `reason` follows after a colon."""
    message = _sanitized(_text(user, attributes))
    if reason:
        message = f"{message}: {reason}"
    return forbidden(attributes.group, attributes.resource, attributes.name, message)


def _text(user: User, attributes: Attributes) -> str:
    who = f"User {quoted(user.name)} cannot {attributes.verb}"
    if not attributes.is_resource:
        return f"{who} path {quoted(attributes.path)}"
    resource = attributes.resource
    if attributes.subresource:
        resource = f"{resource}/{attributes.subresource}"
    what = f"{who} resource {quoted(resource)} in API group {quoted(attributes.group)}"
    if attributes.namespace:
        return f"{what} in the namespace {quoted(attributes.namespace)}"
    return f"{what} at the cluster scope"


def _sanitized(text: str) -> str:
    # The answer must never look like HTML to a browser.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
