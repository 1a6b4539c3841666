"""The reviews: questions about tokens, users and permissions that are answered and never stored.

Each takes the request's own object and completes it (or makes a new one, as the real server does). Texts and checks
follow the API server's `registry/authentication` and `registry/authorization`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from steersman_cluster.auth.attributes import Attributes
from steersman_cluster.auth.authentication import Authenticator
from steersman_cluster.auth.jwt import InvalidTokenError
from steersman_cluster.auth.rbac import Authorizer
from steersman_cluster.auth.selectors import selector_errors
from steersman_cluster.errors import APIError, FieldError, bad_request, field_invalid, invalid
from steersman_cluster.json_access import get_object, get_strings
from steersman_cluster.objects import Object, meta
from steersman_cluster.strategy import User, WriteContext

__all__ = ["Handler", "Review", "ReviewCall", "user_info"]

_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"


class ReviewCall(Protocol):
    """The arguments of a handler; the API server's `Call` provides them."""

    @property
    def user(self) -> User:
        """The authenticated user of the request, not the user in the review."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace in the request path, `""` for cluster-scoped reviews."""
        ...

    @property
    def name(self) -> str:
        """The object name in the request path, such as the ServiceAccount of a TokenRequest."""
        ...

    @property
    def body(self) -> Object | None:
        """The decoded review of the request; `None` without a body."""
        ...

    @property
    def context(self) -> WriteContext:
        """The circumstances of the request."""
        ...


Handler = Callable[[Any], Awaitable[Object]]


class Review:
    """The handlers of all reviews of one API server."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def handlers(self) -> dict[tuple[str, str], Handler]:
        """By group and resource; the value is what a POST calls."""
        return {
            (_AUTHENTICATION, "tokenreviews"): self.token,
            (_AUTHENTICATION, "selfsubjectreviews"): self.self_subject,
            (_AUTHORIZATION, "subjectaccessreviews"): self.access,
            (_AUTHORIZATION, "localsubjectaccessreviews"): self.local_access,
            (_AUTHORIZATION, "selfsubjectaccessreviews"): self.self_access,
            (_AUTHORIZATION, "selfsubjectrulesreviews"): self.self_rules,
        }

    async def token(self, call: ReviewCall) -> Object:
        """TokenReview: return the user of a token. An invalid token is a response, not an error."""
        review = _body(call)
        spec = get_object(review, "spec")
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        status: Object = {"user": {}}
        try:
            found = self._authenticator.authenticate_token(spec["token"], get_strings(spec, "audiences"))
        except (InvalidTokenError, APIError) as error:
            text = "invalid bearer token"
            if self._authenticator.tokens.is_service_account_token(spec["token"]):
                text = f"[{text}, {error}]"
            status["error"] = text
        else:
            status = {"authenticated": True, "user": user_info(found.user), "audiences": list(found.audiences)}
        review["status"] = status
        return review

    async def self_subject(self, call: ReviewCall) -> Object:
        """SelfSubjectReview: return the user of the request."""
        return {
            "kind": "SelfSubjectReview",
            "apiVersion": f"{_AUTHENTICATION}/v1",
            "metadata": {"creationTimestamp": call.context.now},
            "status": {"userInfo": user_info(call.user)},
        }

    async def access(self, call: ReviewCall) -> Object:
        """SubjectAccessReview: may this user do that."""
        review = _body(call)
        spec = get_object(review, "spec")
        errors = _access_errors(spec, names_user=True)
        errors.extend(_metadata_errors(review, ()))
        _refuse(errors)
        return self._answered(review, _subject(spec), spec)

    async def local_access(self, call: ReviewCall) -> Object:
        """LocalSubjectAccessReview: may this user do that in this namespace."""
        review = _body(call)
        review.setdefault("metadata", {}).setdefault("namespace", call.namespace)
        spec = get_object(review, "spec")
        errors = _access_errors(spec, names_user=True)
        errors.extend(_metadata_errors(review, ("namespace",)))
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if resource is not None and (resource.get("namespace") or "") != meta(review)["namespace"]:
            where = "spec.resourceAttributes.namespace"
            errors.append(field_invalid(where, resource.get("namespace") or "", "must match metadata.namespace"))
        if path is not None:
            shown = _go_path(path)
            errors.append(field_invalid("spec.nonResourceAttributes", shown, "disallowed on this kind of request"))
        _refuse(errors)
        if meta(review)["namespace"] != call.namespace:
            raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {call.namespace}")
        return self._answered(review, _subject(spec), spec)

    async def self_access(self, call: ReviewCall) -> Object:
        """SelfSubjectAccessReview: may I do that."""
        review = _body(call)
        spec = get_object(review, "spec")
        errors = _access_errors(spec, names_user=False)
        errors.extend(_metadata_errors(review, ()))
        _refuse(errors)
        return self._answered(review, call.user, spec)

    async def self_rules(self, call: ReviewCall) -> Object:
        """SelfSubjectRulesReview: what may I do in this namespace."""
        namespace = get_object(_body(call), "spec").get("namespace") or ""
        if not namespace:
            raise bad_request("no namespace on request")
        rules, errors = self._authorizer.rules_for(call.user, namespace)
        resources = [
            _shown(rule, ("verbs", "apiGroups", "resources", "resourceNames"))
            for rule in rules
            if rule.get("resources")
        ]
        paths = [_shown(rule, ("verbs", "nonResourceURLs")) for rule in rules if rule.get("nonResourceURLs")]
        status: Object = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
        if errors:
            texts = list(dict.fromkeys(errors))
            status["evaluationError"] = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        return {
            "kind": "SelfSubjectRulesReview",
            "apiVersion": f"{_AUTHORIZATION}/v1",
            "metadata": {},
            "spec": {},
            "status": status,
        }

    def _answered(self, review: Object, user: User, spec: Object) -> Object:
        allowed, reason = self._authorizer.authorize(user, _attributes(spec))
        review["status"] = {"allowed": allowed, "reason": reason} if reason else {"allowed": allowed}
        return review


def user_info(user: User) -> Object:
    """A user as `UserInfo`, in reviews and in AdmissionReviews."""
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _body(call: ReviewCall) -> Object:
    return call.body if call.body is not None else {}


def _subject(spec: Object) -> User:
    extra = {key: tuple(values or ()) for key, values in get_object(spec, "extra").items()}
    return User(spec.get("user") or "", spec.get("uid") or "", tuple(get_strings(spec, "groups")), extra)


def _attributes(spec: Object) -> Attributes:
    if spec.get("resourceAttributes") is None:
        asked = get_object(spec, "nonResourceAttributes")
        return Attributes(asked.get("verb") or "", path=asked.get("path") or "/")
    asked = get_object(spec, "resourceAttributes")
    fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(*(asked.get(field) or "" for field in fields))


def _access_errors(spec: Object, *, names_user: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(field_invalid("spec.nonResourceAttributes", _go_path(path), text))
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(field_invalid("spec.resourceAttributes", None, text))
    if names_user and not spec.get("user") and not spec.get("groups"):
        errors.append(field_invalid("spec.user", "", "at least one of user or group must be specified"))
    if resource is not None:
        where = "spec.resourceAttributes"
        errors.extend(selector_errors(resource.get("fieldSelector"), f"{where}.fieldSelector", labels=False))
        errors.extend(selector_errors(resource.get("labelSelector"), f"{where}.labelSelector", labels=True))
    return errors


def _metadata_errors(review: Object, allowed: Sequence[str]) -> list[FieldError]:
    given = meta(review)
    if all(not value for key, value in given.items() if key not in ("managedFields", *allowed)):
        return []
    text = "must be empty except for namespace" if allowed else "must be empty"
    return [field_invalid("metadata", given, text)]


def _refuse(errors: list[FieldError]) -> None:
    # The real server leaves the kind out here.
    if errors:
        raise invalid(_AUTHORIZATION, "", "", errors)


def _go_path(path: Object) -> Object:
    return {"Path": path.get("path") or "", "Verb": path.get("verb") or ""}


def _shown(rule: Object, fields: Sequence[str]) -> Object:
    return {field: rule[field] for field in fields if rule.get(field)}
