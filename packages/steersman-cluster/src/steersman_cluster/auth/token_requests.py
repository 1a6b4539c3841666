"""TokenRequest: `POST …/serviceaccounts/<name>/token` gives out a token, bound to an object if asked.

Follows the API server's `registry/core/serviceaccount/storage/token.go`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from steersman_cluster.auth.attributes import quoted
from steersman_cluster.auth.reviews import ReviewCall
from steersman_cluster.auth.tokens import TokenIssuer
from steersman_cluster.errors import FieldError, bad_request, conflict, field_invalid, invalid, not_found
from steersman_cluster.json_access import get_object, get_strings
from steersman_cluster.objects import Object, dig, name_of, uid_of
from steersman_cluster.strategy import Reader

__all__ = ["TokenRequests"]

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_SHORTEST, _LONGEST = 600, 1 << 32
_DEFAULT_SECONDS = 3600
# The lifetime that kubelets request: the token is valid for a year, and a warning is recorded after an hour.
_WARNED_SECONDS, _EXTENDED_SECONDS = 3607, 365 * 24 * 3600
_BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class TokenRequests:
    """The handler of the sub-resource `token`."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self._issuer = issuer

    async def create(self, call: ReviewCall) -> Object:
        """Answer a TokenRequest; raises the API server's errors for what cannot be given."""
        reader = call.context.reader
        request: Object = call.body if call.body is not None else {}
        metadata: Object = request.setdefault("metadata", {})
        self._check_names(call, metadata)
        account = reader.get("", "serviceaccounts", call.namespace, call.name)
        if account is None:
            raise not_found("", "serviceaccounts", call.name)
        if metadata.get("uid") and metadata["uid"] != uid_of(account):
            raise conflict(
                _GROUP,
                _KIND,
                call.name,
                f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account"
                f" ({uid_of(account)})",
            )
        spec = _defaulted(get_object(request, "spec"), self._issuer.audiences)
        seconds: int = spec["expirationSeconds"]
        _check_seconds(seconds)
        bound = self._bound(spec["boundObjectRef"], call, reader)
        warn_after = 0
        lifetime = seconds
        if "pod" in bound and seconds == _WARNED_SECONDS and set(spec["audiences"]) <= set(self._issuer.audiences):
            warn_after, lifetime = seconds, _EXTENDED_SECONDS
        token = self._issuer.bound(
            account, seconds=lifetime, audiences=spec["audiences"], warn_after=warn_after, **bound
        )
        metadata.update(
            name=name_of(account),
            namespace=call.namespace,
            uid=uid_of(account),
            creationTimestamp=call.context.now,
        )
        expires = datetime.fromisoformat(call.context.now) + timedelta(seconds=seconds)
        request.update(
            kind=_KIND,
            apiVersion=f"{_GROUP}/v1",
            metadata=metadata,
            spec=spec,
            status={"token": token, "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ")},
        )
        return request

    def _check_names(self, call: ReviewCall, metadata: Object) -> None:
        for field, wanted in (("name", call.name), ("namespace", call.namespace)):
            given = metadata.get(field) or ""
            if given and given != wanted:
                text = f"must match the service account {field} if specified"
                raise invalid(_GROUP, _KIND, call.name, [field_invalid(f"metadata.{field}", given, text)])

    def _bound(self, reference: Object | None, call: ReviewCall, reader: Reader) -> dict[str, Any]:
        if reference is None:
            return {}
        group, _, version = (reference.get("apiVersion") or "").rpartition("/")
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        if group or kind not in _BOUND:
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        resource = _BOUND[kind]
        found = reader.get("", resource, "" if kind == "Node" else call.namespace, name)
        if found is None:
            raise not_found("", resource, name)
        bound: dict[str, Any] = {kind.lower(): found}
        if kind == "Pod":
            if dig(found, "spec", "serviceAccountName") != call.name:
                raise bad_request(
                    f"cannot bind token for serviceaccount {quoted(call.name)} to pod running with different"
                    " serviceaccount name."
                )
            if node := dig(found, "spec", "nodeName"):
                bound["node"] = reader.get("", "nodes", "", node) or {"metadata": {"name": node}}
        if reference.get("uid") and reference["uid"] != uid_of(found):
            raise conflict(
                group,
                kind,
                name,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record."
                " The object might have been deleted and then recreated",
            )
        return bound


def _defaulted(spec: Object, audiences: tuple[str, ...]) -> Object:
    seconds: Any = spec.get("expirationSeconds")
    return {
        **spec,
        "audiences": get_strings(spec, "audiences") or list(audiences),
        "expirationSeconds": _DEFAULT_SECONDS if seconds is None else seconds,
        "boundObjectRef": spec.get("boundObjectRef"),
    }


def _check_seconds(seconds: int) -> None:
    errors: list[FieldError] = []
    where = "spec.expirationSeconds"
    if seconds < _SHORTEST:
        errors.append(field_invalid(where, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _LONGEST:
        errors.append(field_invalid(where, seconds, "may not specify a duration larger than 2^32 seconds"))
    if errors:
        raise invalid(_GROUP, _KIND, "", errors)
