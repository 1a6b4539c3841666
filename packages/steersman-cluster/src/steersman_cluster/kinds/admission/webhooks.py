"""Configurations of admission webhooks: defaults and validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from steersman_cluster.errors import ErrorType, FieldError, field_invalid, required, too_many
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns, formats
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.admission.expressions import ExpressionCheck
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "WebhookConfiguration", "conditions", "rule_errors", "webhook_service", "webhook_url"]

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_FORM = "; desired format: https://host[/path]"


class WebhookConfiguration(Plain):
    """The rules of WebhookConfiguration objects."""

    unconditional_update = False

    namespaced = False
    generation = True
    reinvoked = False
    """Whether webhooks may be asked again, as mutating ones may."""
    columns = (columns.NAME, Column("Webhooks", "integer", description="How many webhooks."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), len(get_list(obj, "webhooks")), columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        for hook in get_list(obj, "webhooks"):
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if self.reinvoked:
                hook.setdefault("reinvocationPolicy", "Never")
            if (service := get_object(hook, "clientConfig").get("service")) is not None:
                service.setdefault("port", 443)
            for rule in get_list(hook, "rules"):
                rule.setdefault("scope", "*")

    def errors(self, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        seen: set[str] = set()
        for index, hook in enumerate(get_list(obj, "webhooks")):
            path, name = Path("webhooks").at(index), get_string(hook, "name")
            found += self._hook(path, hook)
            found += _versions(path / "admissionReviewVersions", get_list(hook, "admissionReviewVersions"))
            if name and name in seen:
                found.append(FieldError(ErrorType.DUPLICATE, path / "name", name))
            seen.add(name)
        return found

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        return metadata.repeated_create(obj, old, self.name_rule, namespaced=False) + self.errors(obj)

    def _hook(self, path: Path, hook: Object) -> list[FieldError]:
        found = _full_name(path / "name", get_string(hook, "name"))
        for index, rule in enumerate(get_list(hook, "rules")):
            found += rule_errors((path / "rules").at(index), rule)
        for field, known in (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))):
            if (value := hook.get(field)) is not None:
                found += check.enum(path / field, value, known)
        effects = hook.get("sideEffects")
        if effects is None:
            found.append(required(path / "sideEffects", "must specify one of None, NoneOnDryRun"))
        else:
            found += check.enum(path / "sideEffects", effects, ("None", "NoneOnDryRun"))
        seconds = hook.get("timeoutSeconds")
        if seconds is not None and not 1 <= seconds <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            found.append(field_invalid(path / "timeoutSeconds", seconds, text))
        for field in ("namespaceSelector", "objectSelector"):
            found += check.label_selector(path / field, hook.get(field))
        if (again := hook.get("reinvocationPolicy")) is not None:
            found += check.enum(path / "reinvocationPolicy", again, ("IfNeeded", "Never"))
        found += _client(path / "clientConfig", get_object(hook, "clientConfig"))
        return found + conditions(path / "matchConditions", get_list(hook, "matchConditions"))


def _full_name(path: Path, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if texts := formats.dns_subdomain(name):
        return [field_invalid(path, name, ",".join(texts))]
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [field_invalid(path, name, text)]
    return []


def rule_errors(path: Path, rule: Object) -> list[FieldError]:
    """Operations, groups, versions, resources and scope that a webhook or policy is for."""
    found: list[FieldError] = []
    operations = get_list(rule, "operations")
    found += _starred(path / "operations", operations, "operations")
    for index, operation in enumerate(operations):
        found += check.enum((path / "operations").at(index), operation, _OPERATIONS)
    found += _starred(path / "apiGroups", get_list(rule, "apiGroups"), "API groups")
    versions = get_list(rule, "apiVersions")
    found += _starred(path / "apiVersions", versions, "API versions")
    found += [required((path / "apiVersions").at(index)) for index, version in enumerate(versions) if not version]
    found += _resources(path / "resources", get_list(rule, "resources"))
    if (scope := rule.get("scope")) is not None:
        found += check.enum(path / "scope", scope, ("*", "Cluster", "Namespaced"))
    return found


def _starred(path: Path, values: Sequence[str], what: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [field_invalid(path, list(values), f"if '*' is present, must not specify other {what}")]
    return []


def _resources(path: Path, resources: Sequence[str]) -> list[FieldError]:
    found = [] if resources else [required(path)]
    all_of: set[str] = set()
    any_with: set[str] = set()
    for index, text in enumerate(resources):
        resource, slash, sub = text.partition("/")
        if not text:
            found.append(required(path.at(index)))
        if not slash:
            continue
        if resource in all_of:
            problem = f"if '{resource}/*' is present, must not specify {text}"
            found.append(field_invalid(path.at(index), text, problem))
        if sub in any_with:
            found.append(field_invalid(path.at(index), text, f"if '*/{sub}' is present, must not specify {text}"))
        if sub == "*":
            all_of.add(resource)
        if resource == "*":
            any_with.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        text = "if '*/*' is present, must not specify other resources"
        found.append(field_invalid(path, list(resources), text))
    if "*" in resources and any(text != "*" and "/" not in text for text in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        found.append(field_invalid(path, list(resources), text))
    return found


def _client(path: Path, config: Object) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return webhook_url(path / "url", url) if url is not None else webhook_service(path / "service", service or {})


def webhook_url(path: Path, url: str) -> list[FieldError]:
    """An https URL of a host and a path, nothing else."""
    try:
        parsed = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_FORM}")]
    found: list[FieldError] = []
    if parsed.scheme != "https":
        found.append(field_invalid(path, parsed.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    host = parsed.netloc.rpartition("@")[2]
    if not host:
        found.append(field_invalid(path, host, f"host must be specified{_FORM}"))
    if "@" in parsed.netloc:
        # What the user put there may be a password, hence never shown.
        found.append(field_invalid(path, "<redacted>", "user information is not permitted in the URL"))
    if parsed.fragment:
        found.append(field_invalid(path, parsed.fragment, "fragments are not permitted in the URL"))
    if parsed.query:
        found.append(field_invalid(path, parsed.query, "query parameters are not permitted in the URL"))
    return found


def webhook_service(path: Path, service: Object) -> list[FieldError]:
    """The Service a webhook is behind, as admission and conversion webhooks name it."""
    found = [required(path / field) for field in ("name", "namespace") if not service.get(field)]
    port = service.get("port", 443)
    if texts := formats.port_number(port):
        found.append(field_invalid(path / "port", port, f"port is not valid: {', '.join(texts)}"))
    url = get_string(service, "path")
    if url in ("", "/"):
        return found
    if url == "//":
        return [*found, field_invalid(path / "path", url, "segment[0] may not be empty")]
    if not url.startswith("/"):
        found.append(field_invalid(path / "path", url, "must start with a '/'"))
    for index, step in enumerate(url[1:].removesuffix("/").split("/")):
        texts = formats.dns_subdomain(step) if step else ()
        if not step:
            found.append(field_invalid(path / "path", url, f"segment[{index}] may not be empty"))
        found += [field_invalid(path / "path", url, f"segment[{index}]: {text}") for text in texts]
    return found


def _versions(path: Path, versions: Sequence[str]) -> list[FieldError]:
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    found: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            found.append(field_invalid(path.at(index), version, "duplicate version"))
        else:
            found += check.dns1035_label(path.at(index), version)
    if not {"v1", "v1beta1"} & set(versions):
        found.append(field_invalid(path, list(versions), "must include at least one of v1, v1beta1"))
    return found


def conditions(path: Path, given: Sequence[Object], *, params: bool = False) -> list[FieldError]:
    """Return the errors of match conditions; `params` says whether their expressions may read `params`."""
    checks = ExpressionCheck(params=params)
    found = [too_many(path, len(given), 64)] if len(given) > 64 else []
    seen: set[str] = set()
    for index, condition in enumerate(given):
        at, name = path.at(index), get_string(condition, "name")
        if expression := get_string(condition, "expression").strip():
            found += checks.check(at / "expression", expression, "bool")
        else:
            found.append(required(at / "expression"))
        found += check.qualified_name(at / "name", name) if name else [required(at / "name")]
        if name and name in seen:
            found.append(FieldError(ErrorType.DUPLICATE, at / "name", name))
        seen.add(name)
    return found


class MutatingWebhookConfiguration(WebhookConfiguration):
    reinvoked = True


_GROUP = "admissionregistration.k8s.io"

STRATEGIES = {
    (_GROUP, "v1", "ValidatingWebhookConfiguration"): WebhookConfiguration(),
    (_GROUP, "v1", "MutatingWebhookConfiguration"): MutatingWebhookConfiguration(),
}
