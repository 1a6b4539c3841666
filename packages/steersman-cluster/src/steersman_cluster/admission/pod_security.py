"""PodSecurity: the labels of a namespace select the levels that are enforced, audited and warned of.

An invalid label counts as the strictest level for `enforce`, and as none for `audit` and `warn`. Templates are
never refused, since their Pods will be; they are warned of. Follows KEP-2579.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.pod_security_checks import BASELINE, LATEST, RESTRICTED, violations
from steersman_cluster.admission.pod_security_fields import all_containers
from steersman_cluster.admission.write import CREATE, UPDATE, Write
from steersman_cluster.errors import FieldError, field_invalid, invalid
from steersman_cluster.json_access import get_object
from steersman_cluster.objects import Object, Path, annotations_of, dig, labels_of, meta, name_of

__all__ = ["Level", "Policy", "check_namespace", "check_pod", "check_template", "policy_of"]

_PREFIX = "pod-security.kubernetes.io/"
_PRIVILEGED = "privileged"
_LEVELS = (_PRIVILEGED, BASELINE, RESTRICTED)
_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)", re.ASCII)
_LABELS = Path("metadata.labels")
_MAX_CHECKED_PODS = 3000
_TEMPLATES = {"podtemplates": ("template",), "cronjobs": ("spec", "jobTemplate", "spec", "template")}
_TEMPLATE = ("spec", "template")


class Level(NamedTuple):
    """A level as of a version of Kubernetes."""

    name: str = _PRIVILEGED
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"

    def violations(self, annotations: Mapping[str, str], spec: Object) -> list[tuple[str, str]]:
        """Return the violations (reason, detail) of a Pod."""
        minor = LATEST if self.version == "latest" else min(int(self.version.partition(".")[2]), LATEST)
        return violations(self.name, minor, annotations, spec)


class Policy(NamedTuple):
    """The enforced, audited and warned levels of a namespace."""

    enforce: Level = Level()
    audit: Level = Level()
    warn: Level = Level()

    @property
    def is_privileged(self) -> bool:
        """Whether all levels allow everything."""
        return all(level.name == _PRIVILEGED for level in self)


_OPEN = Policy()


def policy_of(labels: Mapping[str, str]) -> tuple[Policy, list[FieldError]]:
    """Return the policy that the labels of a namespace define, and the errors of the labels."""
    if not any(key.startswith(_PREFIX) for key in labels):
        return _OPEN, []
    errors: list[FieldError] = []
    found: dict[str, Level] = {}
    for mode in ("enforce", "audit", "warn"):
        name, version = labels.get(_PREFIX + mode, _PRIVILEGED), labels.get(f"{_PREFIX}{mode}-version", "latest")
        if name not in _LEVELS:
            errors.append(field_invalid(_LABELS.key(_PREFIX + mode), name, f"must be one of {', '.join(_LEVELS)}"))
            name = RESTRICTED if mode == "enforce" else _PRIVILEGED
        if version != "latest" and not _VERSION.fullmatch(version):
            at = _LABELS.key(f"{_PREFIX}{mode}-version")
            errors.append(field_invalid(at, version, 'must be "latest" or "v1.x"'))
            version = "latest"
        found[mode] = Level(name, version)
    enforce, warn = found["enforce"], found["warn"]
    if _PREFIX + "warn" not in labels and labels.get(_PREFIX + "enforce") in (BASELINE, RESTRICTED):
        version = warn.version if f"{_PREFIX}warn-version" in labels else enforce.version
        warn = Level(enforce.name, version)
    return Policy(enforce, found["audit"], warn), errors


def check_namespace(write: Write, lookups: Lookups) -> None:
    """Labels must be right; Pods that are there and would be refused are warned of."""
    if write.obj is None:
        return
    policy, errors = policy_of(labels_of(write.obj))
    if write.operation == CREATE:
        if errors:
            raise invalid("", "Namespace", name_of(write.obj), errors)
        return
    before, known = policy_of(labels_of(write.old or {}))
    if errors and errors != known:
        raise invalid("", "Namespace", name_of(write.obj), errors)
    new, old = policy.enforce, before.enforce
    relaxed = new.version == old.version and _LEVELS.index(new.name) <= _LEVELS.index(old.name)
    if new != old and new.name != _PRIVILEGED and not relaxed:
        name = name_of(write.obj)
        write.warnings += _warnings_of(name, new, list(lookups.reader.list("", "pods", name)))


def _warnings_of(namespace: str, level: Level, pods: list[Object]) -> list[str]:
    first = _one_of_each_controller(pods)
    found: dict[str, list[str]] = {}
    for pod in first[:_MAX_CHECKED_PODS]:
        if bad := level.violations(annotations_of(pod), get_object(pod, "spec")):
            found.setdefault(", ".join(reason for reason, _ in bad), []).append(name_of(pod))
    warnings: list[str] = []
    if len(first) > _MAX_CHECKED_PODS:
        warnings.append(
            f"new PodSecurity enforce level only checked against the first {_MAX_CHECKED_PODS} "
            f"of {len(first)} existing pods"
        )
    if found:
        warnings.append(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"')
    return warnings + sorted(f"{_some(names)}: {reasons}" for reasons, names in found.items())


def _some(names: list[str]) -> str:
    others = len(names) - 1
    more = f" (and {others} other pod{'' if others == 1 else 's'})" if others else ""
    return f"{min(names)}{more}"


def _one_of_each_controller(pods: list[Object]) -> list[Object]:
    """First one Pod of each controller, then their likes."""
    seen: set[str] = set()
    first: list[Object] = []
    rest: list[Object] = []
    for pod in pods:
        owner = next((o["uid"] for o in meta(pod).get("ownerReferences") or () if o.get("controller")), None)
        (rest if owner in seen else first).append(pod)
        if owner is not None:
            seen.add(owner)
    return first + rest


def check_pod(write: Write, lookups: Lookups) -> None:
    """A new Pod, or one with another image or more containers, must be such as its namespace takes."""
    if write.obj is None or write.subresource not in ("", "ephemeralcontainers"):
        return
    policy, errors = policy_of(lookups.namespace_labels(write.namespace) or {})
    if policy.is_privileged and not errors:
        write.audit_annotations[f"{_PREFIX}enforce-policy"] = str(Level())
    elif write.operation != UPDATE or _matters(write.obj, write.old or {}):
        _check(write, policy, errors, write.obj, enforcing=True)


def check_template(write: Write, lookups: Lookups) -> None:
    """Warn when a written template of Pods would be refused."""
    if write.obj is None or write.subresource:
        return
    policy, errors = policy_of(lookups.namespace_labels(write.namespace) or {})
    if not errors and policy.warn.name == policy.audit.name == _PRIVILEGED:
        return
    template = dig(write.obj, *_TEMPLATES.get(write.resource, _TEMPLATE))
    if template is not None:
        _check(write, policy, errors, template, enforcing=False)


def _check(write: Write, policy: Policy, errors: list[FieldError], pod: Object, *, enforcing: bool) -> None:
    annotations, spec, noted = annotations_of(pod), get_object(pod, "spec"), write.audit_annotations
    if errors:
        told = ", ".join(error.message for error in errors)
        noted[f"{_PREFIX}error"] = f"Failed to parse policy: {told if len(errors) == 1 else f'[{told}]'}"
    refused = _violations_text(policy.enforce, annotations, spec) if enforcing else ""
    if enforcing:
        noted[f"{_PREFIX}enforce-policy"] = str(policy.enforce)
    if told := _violations_text(policy.audit, annotations, spec):
        noted[f"{_PREFIX}audit-violations"] = f"would violate PodSecurity {told}"
    if refused:
        raise write.forbidden(f"violates PodSecurity {refused}")
    if (told := _violations_text(policy.warn, annotations, spec)) and (text := f"would violate PodSecurity {told}"):
        write.warnings.append(text)


def _violations_text(level: Level, annotations: Mapping[str, str], spec: Object) -> str:
    found = level.violations(annotations, spec)
    if not found:
        return ""
    return f'"{level}": {", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in found)}'


def _matters(pod: Object, old: Object) -> bool:
    """Return whether a change of a Pod is one of images or containers."""

    def images(of: Object) -> dict[str, str]:
        return {c.get("name") or "": c.get("image") or "" for c in all_containers(get_object(of, "spec"))}

    return images(pod) != images(old)
