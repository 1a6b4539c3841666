"""APIService, FlowSchema, PriorityLevelConfiguration and CertificateSigningRequest: what clients see of them.

APIServices with a Service are served by `api.aggregation`. The others do nothing in the embedded cluster: no request is
queued; only their form is that of the API server, so that manifests apply and `kubectl get` shows them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from steersman_cluster.errors import FieldError, field_invalid, required
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns, formats
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "APIService", "CertificateSigningRequest", "FlowSchema", "PriorityLevelConfiguration"]

_SPEC = Path("spec")


def _fill(obj: Object, field: str, value: Any) -> None:
    if obj.get(field) is None:
        obj[field] = value


class APIService(Plain):
    """The rules of APIService objects."""

    namespaced = False
    has_status = True
    name_rule = "path"
    revalidated_first = True
    columns = (
        columns.NAME,
        Column("Service", description="The Service of the extension API server, or Local."),
        Column("Available", description="Whether it is served."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        service = get_object(obj, "spec").get("service")
        conditions = {get_string(c, "type"): c for c in get_list(get_object(obj, "status"), "conditions")}
        available = conditions.get("Available", {})
        shown = get_string(available, "status") or columns.UNKNOWN
        if shown != "True" and get_string(available, "reason"):
            shown = f"{shown} ({available['reason']})"
        by = f"{get_string(service, 'namespace')}/{get_string(service, 'name')}" if service else "Local"
        return [columns.name(obj), by, shown, columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        if (service := get_object(obj, "spec").get("service")) is not None:
            service.setdefault("port", 443)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        local = get_object(obj, "spec").get("service") is None
        condition = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": ctx.now,
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        obj["status"] = {"conditions": [condition]} if local else {}

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        group, version, name = get_string(spec, "group"), get_string(spec, "version"), columns.name(obj)
        expected = f"{version}.{group}"
        found: list[FieldError] = []
        if name != expected:
            text = f'must be `spec.version+"."+spec.group`: "{expected}"'
            found.append(field_invalid("metadata.name", name, text))
        if group:
            found += check.dns_subdomain(_SPEC / "group", group)
        elif version != "v1":
            text = "only v1 may have an empty group and it better be legacy kube"
            found.append(required(_SPEC / "group", text))
        found += check.dns1035_label(_SPEC / "version", version)
        for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            value = spec.get(field) or 0
            if not 0 < value <= limit:
                text = f"must be positive and less than {limit}"
                found.append(field_invalid(_SPEC / field, value, text))
        return found + self._service(spec)

    def _service(self, spec: Object) -> list[FieldError]:
        service, insecure = spec.get("service"), spec.get("insecureSkipTLSVerify") is True
        if service is None:
            if not spec.get("caBundle") and not insecure:
                return []
            field = "caBundle" if spec.get("caBundle") else "insecureSkipTLSVerify"
            shown = "" if spec.get("caBundle") else True
            return [field_invalid(_SPEC / field, shown, "local APIServices may not have a caBundle")]
        path = _SPEC / "service"
        found = [required(path / field) for field in ("namespace", "name") if not service.get(field)]
        port = service.get("port", 443)
        if texts := formats.port_number(port):
            found.append(field_invalid(path / "port", port, f"port is not valid: {', '.join(texts)}"))
        if insecure and spec.get("caBundle"):
            text = "may not be true if caBundle is present"
            found.append(field_invalid(_SPEC / "insecureSkipTLSVerify", True, text))
        return found


class FlowSchema(Plain):
    """The rules of FlowSchema objects."""

    namespaced = False
    generation = True
    has_status = True
    columns = (
        columns.NAME,
        Column("PriorityLevel", description="Which level its requests have."),
        Column("MatchingPrecedence", description="Which schema goes first."),
        Column("DistinguisherMethod", description="The method that distinguishes flows."),
        columns.AGE,
        Column("MissingPL", description="Whether the level is missing."),
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        dangling = [c for c in get_list(get_object(obj, "status"), "conditions") if c.get("type") == "Dangling"]
        method = get_string(get_object(spec, "distinguisherMethod"), "type")
        return [
            columns.name(obj),
            get_string(get_object(spec, "priorityLevelConfiguration"), "name"),
            spec.get("matchingPrecedence") or 0,
            method or columns.NONE,
            columns.age(obj, now),
            get_string(dangling[0], "status") if dangling else "?",
        ]

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("matchingPrecedence"):
            spec["matchingPrecedence"] = 1000
        for rule in get_list(spec, "rules"):
            for subject in get_list(rule, "subjects"):
                account = subject.get("serviceAccount")
                if account is not None:
                    account.setdefault("namespace", "")

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        obj["status"] = {}

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        precedence, path = spec.get("matchingPrecedence") or 0, _SPEC / "matchingPrecedence"
        found: list[FieldError] = []
        if precedence < 1:
            found.append(field_invalid(path, precedence, "must be a positive value"))
        if precedence > 10000:
            found.append(field_invalid(path, precedence, "must not be greater than 10000"))
        if precedence == 1 and columns.name(obj) != "exempt":
            text = "only the schema named 'exempt' may have matchingPrecedence 1"
            found.append(field_invalid(path, precedence, text))
        level, at = (
            get_string(get_object(spec, "priorityLevelConfiguration"), "name"),
            _SPEC / "priorityLevelConfiguration",
        )
        if not level:
            found.append(required(at / "name", "must reference a priority level"))
        else:
            found += check.dns_subdomain(at / "name", level)
        return found


class PriorityLevelConfiguration(Plain):
    """The rules of PriorityLevelConfiguration objects."""

    namespaced = False
    generation = True
    has_status = True
    columns = (
        columns.NAME,
        Column("Type", description="Limited or exempt."),
        Column("NominalConcurrencyShares", description="Its share of requests at a time."),
        Column("Queues", description="How many queues."),
        Column("HandSize", description="How many queues a flow may use."),
        Column("QueueLengthLimit", description="How many requests a queue holds."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        limited = get_object(spec, "limited")
        queuing = get_object(get_object(get_object(spec, "limited"), "limitResponse"), "queuing")
        shares = limited.get("nominalConcurrencyShares")
        sizes = [queuing.get(field, columns.NONE) for field in ("queues", "handSize", "queueLengthLimit")]
        shown = columns.NONE if shares is None else shares
        return [columns.name(obj), get_string(spec, "type"), shown, *sizes, columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if (limited := spec.get("limited")) is not None:
            _fill(limited, "nominalConcurrencyShares", 30)
            _fill(limited, "lendablePercent", 0)
            if (queuing := get_object(limited, "limitResponse").get("queuing")) is not None:
                for field, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                    queuing[field] = queuing.get(field) or value
        if (exempt := spec.get("exempt")) is not None:
            _fill(exempt, "nominalConcurrencyShares", 0)
            _fill(exempt, "lendablePercent", 0)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        obj["status"] = {}

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        kind, limited = get_string(spec, "type"), spec.get("limited")
        found = check.enum(_SPEC / "type", kind, ("Exempt", "Limited"))
        if kind == "Limited" and limited is None:
            found.append(required(_SPEC / "limited", "must not be empty when type is Limited"))
        if limited is not None:
            response = get_string(get_object(limited, "limitResponse"), "type")
            path = _SPEC / "limited" / "limitResponse" / "type"
            found += check.enum(path, response, ("Queue", "Reject"))
        return found


class CertificateSigningRequest(Plain):
    """The rules of CertificateSigningRequest objects."""

    namespaced = False
    has_status = True
    revalidated = False
    columns = (
        columns.NAME,
        columns.AGE,
        Column("SignerName", description="The requested signer."),
        Column("Requestor", description="The user of the request."),
        Column("RequestedDuration", description="For how long."),
        Column("Condition", description="What became of it."),
    )
    selectable = ("spec.signerName",)

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.signerName": get_string(get_object(obj, "spec"), "signerName")}

    def row(self, obj: Object, now: float) -> list[Any]:
        spec, status = get_object(obj, "spec"), get_object(obj, "status")
        conditions = [get_string(condition, "type") for condition in get_list(status, "conditions")]
        shown = [kind for kind in ("Approved", "Denied", "Failed") if kind in conditions] or ["Pending"]
        if status.get("certificate"):
            shown.append("Issued")
        seconds = spec.get("expirationSeconds")
        return [
            columns.name(obj),
            columns.age(obj, now),
            get_string(spec, "signerName") or columns.NONE,
            get_string(spec, "username"),
            columns.NONE if seconds is None else columns.duration(seconds),
            ",".join(shown),
        ]

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("usages") and get_string(spec, "signerName") == "kubernetes.io/legacy-unknown":
            spec["usages"] = ["digital signature", "key encipherment"]

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        spec, user = obj["spec"], ctx.user
        told: Object = {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        for field, value in told.items():
            if value:
                spec[field] = value
            else:
                spec.pop(field, None)
        obj["status"] = {}

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        obj["spec"] = old.get("spec", {})
        if not ctx.subresource:
            obj["status"] = old.get("status", {})

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        request, signer, seconds = (
            get_string(spec, "request"),
            get_string(spec, "signerName"),
            spec.get("expirationSeconds"),
        )
        found: list[FieldError] = []
        try:
            block = base64.b64decode(request)
        except binascii.Error:
            block = b""
        if b"-----BEGIN CERTIFICATE REQUEST-----" not in block:
            text = "PEM block type must be CERTIFICATE REQUEST"
            found.append(field_invalid(_SPEC / "request", request or None, text))
        if not spec.get("usages"):
            found.append(required(_SPEC / "usages"))
        if not signer:
            found.append(required(_SPEC / "signerName"))
        elif "/" not in signer:
            text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            found.append(field_invalid(_SPEC / "signerName", signer, text))
        if seconds is not None and seconds < 600:
            text = "may not specify a duration less than 600 seconds (10 minutes)"
            found.append(field_invalid(_SPEC / "expirationSeconds", seconds, text))
        return found

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        return []


STRATEGIES = {
    ("apiregistration.k8s.io", "v1", "APIService"): APIService(),
    ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema"): FlowSchema(),
    ("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration"): PriorityLevelConfiguration(),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest"): CertificateSigningRequest(),
}
