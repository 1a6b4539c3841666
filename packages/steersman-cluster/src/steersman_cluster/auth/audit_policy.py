"""The audit policy, as in kube-apiserver's `--audit-policy-file`.

The first rule that matches decides; where none does, nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Self, cast

import yaml

from steersman import documents
from steersman_cluster.auth.attributes import Attributes
from steersman_cluster.json_access import get_objects, get_strings
from steersman_cluster.objects import Object
from steersman_cluster.strategy import User

__all__ = ["Level", "Policy", "PolicyError"]

STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")


class PolicyError(ValueError):
    """The audit policy is invalid; the message names the field."""


class Level(IntEnum):
    """The level of recording; each level includes those before it."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def text(self) -> str:
        """As events and policies write it."""
        return _TEXTS[self]


_TEXTS = {
    Level.NONE: "None",
    Level.METADATA: "Metadata",
    Level.REQUEST: "Request",
    Level.REQUEST_RESPONSE: "RequestResponse",
}
_LEVELS = {text: level for level, text in _TEXTS.items()}


@dataclass(frozen=True, slots=True)
class Decision:
    """The parts of one request that are recorded."""

    level: Level
    omitted: frozenset[str]
    """The stages that are not recorded."""
    omits_managed_fields: bool


class Policy:
    """An `audit.k8s.io/v1` Policy."""

    def __init__(self, document: Object) -> None:
        """Take a policy as it is in its file. Raises `PolicyError`."""
        if document.get("kind") not in (None, "Policy"):
            raise PolicyError(f"an audit policy is of kind Policy, not {document.get('kind')}")
        self._rules = get_objects(document, "rules")
        everywhere = _stages(document)
        fields = document.get("omitManagedFields") is True
        self._decisions: list[Decision] = []
        for index, rule in enumerate(self._rules):
            level = _LEVELS.get(rule.get("level", ""))
            if level is None:
                raise PolicyError(f"rules[{index}].level: {rule.get('level')!r} is none of {', '.join(_LEVELS)}")
            own = rule.get("omitManagedFields")
            omits = fields if own is None else own is True
            self._decisions.append(Decision(level, everywhere | _stages(rule), omits))
        self._none = Decision(Level.NONE, everywhere, fields)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a policy file (YAML or JSON). Raises `PolicyError` for an invalid policy, OSError without a file."""
        try:
            document: Any = documents.load(path.read_text())
        except yaml.YAMLError as error:
            raise PolicyError(f"{path}: {error}") from error
        if not isinstance(document, dict):
            raise PolicyError(f"{path} holds no audit policy")
        return cls(cast(Object, document))

    @classmethod
    def at(cls, level: Level) -> Self:
        """Record everything at one level, at the end of each request; of Secrets and tokens only the metadata."""
        sensitive = {
            "level": _TEXTS[min(level, Level.METADATA)],
            "resources": [
                {"group": "", "resources": ["secrets", "serviceaccounts/token"]},
                {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
            ],
        }
        return cls({"omitStages": ["RequestReceived"], "rules": [sensitive, {"level": _TEXTS[level]}]})

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Return the level for a request."""
        for rule, decision in zip(self._rules, self._decisions, strict=True):
            if _matches(rule, user, attributes):
                return decision
        return self._none


def _stages(document: Object) -> frozenset[str]:
    found = frozenset(get_strings(document, "omitStages"))
    if unknown := found - set(STAGES):
        raise PolicyError(f"omitStages: {', '.join(sorted(unknown))} is none of {', '.join(STAGES)}")
    return found


def _matches(rule: Object, user: User, attributes: Attributes) -> bool:
    users, groups, verbs = get_strings(rule, "users"), get_strings(rule, "userGroups"), get_strings(rule, "verbs")
    if users and user.name not in users:
        return False
    if groups and not set(groups) & set(user.groups):
        return False
    if verbs and attributes.verb not in verbs:
        return False
    namespaces, resources = get_strings(rule, "namespaces"), get_objects(rule, "resources")
    if namespaces or resources:
        if not attributes.is_resource or (namespaces and attributes.namespace not in namespaces):
            return False
        return not resources or any(_resource_matches(item, attributes) for item in resources)
    paths = get_strings(rule, "nonResourceURLs")
    return not paths or (not attributes.is_resource and _path_matches(paths, attributes.path))


def _resource_matches(item: Object, attributes: Attributes) -> bool:
    if (item.get("group") or "") not in (attributes.group, "*"):
        return False
    resources, names = get_strings(item, "resources"), get_strings(item, "resourceNames")
    if not resources:
        return True
    if names and attributes.name not in names:
        return False
    subresource = attributes.subresource
    wanted = f"{attributes.resource}/{subresource}" if subresource else attributes.resource
    return any(
        resource in ("*", wanted, f"{attributes.resource}/*") or (subresource and resource == f"*/{subresource}")
        for resource in resources
    )


def _path_matches(paths: Sequence[str], path: str) -> bool:
    return any(
        pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*"))) for pattern in paths
    )
