"""Reviews and token requests: responses and error messages."""

import pytest

from steersman_cluster.auth import MASTERS, Auth
from steersman_cluster.auth.jwt import unverified
from steersman_cluster.errors import APIError
from steersman_cluster.strategy import WriteContext

from .conftest import NOW, Call, Store, rule, subject, user

AUTHN, AUTHZ = "authentication.k8s.io", "authorization.k8s.io"


async def ask(auth: Auth, store: Store, group: str, resource: str, body: dict, who=None, namespace: str = "") -> dict:
    asking = who or user("admin", MASTERS)
    context = WriteContext(asking, NOW, store, lambda length: "x" * length)
    return await auth.reviews[group, resource](Call(context, asking, body, namespace))


async def request_token(auth: Auth, store: Store, spec: dict, account: str = "op", **metadata: str) -> dict:
    asking = user("admin", MASTERS)
    context = WriteContext(asking, "2027-01-15T08:00:00Z", store, lambda length: "x" * length)
    return await auth.token_request(Call(context, asking, {"metadata": metadata, "spec": spec}, "default", account))


async def test_a_token_review_tells_whom_a_token_stands_for(store: Store, auth: Auth):
    token = auth.tokens.bound(store.account("op"), seconds=600)
    review = await ask(auth, store, AUTHN, "tokenreviews", {"spec": {"token": token}})
    assert review["status"]["authenticated"] is True
    assert review["status"]["user"]["username"] == "system:serviceaccount:default:op"
    assert review["status"]["audiences"] == ["https://kubernetes.default.svc.cluster.local"]


async def test_a_bad_token_is_an_answer(store: Store, auth: Auth):
    review = await ask(auth, store, AUTHN, "tokenreviews", {"spec": {"token": "bad"}})
    assert review["status"] == {"user": {}, "error": "invalid bearer token"}
    token = auth.tokens.bound(store.account("op"), seconds=600)
    review = await ask(auth, store, AUTHN, "tokenreviews", {"spec": {"token": token, "audiences": ["x"]}})
    assert review["status"]["error"] == (
        '[invalid bearer token, token audiences ["https://kubernetes.default.svc.cluster.local"] is invalid for the '
        'target audiences ["x"]]'
    )
    with pytest.raises(APIError, match="token is required for TokenReview in authentication"):
        await ask(auth, store, AUTHN, "tokenreviews", {})


async def test_a_self_subject_review_tells_who_asks(store: Store, auth: Auth):
    review = await ask(auth, store, AUTHN, "selfsubjectreviews", {}, user("jane", "devs"))
    assert review == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": NOW},
        "status": {"userInfo": {"username": "jane", "groups": ["devs", "system:authenticated"]}},
    }


async def test_access_reviews_decide_for_others_and_for_oneself(store: Store, auth: Auth):
    store.role("reader", rule("list", "pods"))
    store.bind("readers", "reader", subject("jane"))
    asked = {"verb": "list", "resource": "pods", "namespace": "default"}
    reason = 'RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to User "jane"'
    review = await ask(
        auth, store, AUTHZ, "subjectaccessreviews", {"spec": {"user": "jane", "resourceAttributes": asked}}
    )
    assert review["status"] == {"allowed": True, "reason": reason}
    review = await ask(
        auth, store, AUTHZ, "selfsubjectaccessreviews", {"spec": {"resourceAttributes": asked}}, user("joe")
    )
    assert review["status"] == {"allowed": False}
    body = {"spec": {"user": "jane", "resourceAttributes": asked}}
    review = await ask(auth, store, AUTHZ, "localsubjectaccessreviews", body, namespace="default")
    assert review["metadata"] == {"namespace": "default"}
    assert review["status"]["allowed"] is True


@pytest.mark.parametrize(
    ("resource", "body", "message"),
    [
        (
            "selfsubjectaccessreviews",
            {"spec": {}},
            '.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of '
            "nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            "subjectaccessreviews",
            {"spec": {"resourceAttributes": {}}},
            '.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be '
            "specified",
        ),
        (
            "selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/", "verb": "get"}}},
            '.authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: '
            '{"Path":"/","Verb":"get"}: cannot be specified in combination with resourceAttributes',
        ),
        (
            "localsubjectaccessreviews",
            {"spec": {"user": "a", "resourceAttributes": {"namespace": "other"}}},
            '.authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "other": must '
            "match metadata.namespace",
        ),
    ],
)
async def test_a_senseless_access_review_is_refused(store: Store, auth: Auth, resource: str, body: dict, message: str):
    with pytest.raises(APIError) as refused:
        await ask(auth, store, AUTHZ, resource, body, namespace="default")
    assert (refused.value.code, refused.value.message) == (422, message)


async def test_rules_reviews_list_what_one_may(store: Store, fresh: Auth):
    review = await ask(fresh, store, AUTHZ, "selfsubjectrulesreviews", {"spec": {"namespace": "a"}}, user("jane"))
    assert review["status"]["incomplete"] is False
    assert {"verbs": ["create"], "apiGroups": [AUTHN], "resources": ["selfsubjectreviews"]} in (
        review["status"]["resourceRules"]
    )
    with pytest.raises(APIError, match="no namespace on request"):
        await ask(fresh, store, AUTHZ, "selfsubjectrulesreviews", {"spec": {}})


async def test_a_token_is_given_for_an_hour_by_default(store: Store, auth: Auth):
    account = store.account("op")
    answer = await request_token(auth, store, {})
    token = answer["status"].pop("token")
    assert answer == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": "op",
            "namespace": "default",
            "uid": account["metadata"]["uid"],
            "creationTimestamp": "2027-01-15T08:00:00Z",
        },
        "spec": {
            "audiences": ["https://kubernetes.default.svc.cluster.local"],
            "expirationSeconds": 3600,
            "boundObjectRef": None,
        },
        "status": {"expirationTimestamp": "2027-01-15T09:00:00Z"},
    }
    assert auth.tokens.verify(token).user.name == "system:serviceaccount:default:op"


async def test_the_token_of_a_pod_is_bound_to_it_and_lives_for_a_year(store: Store, auth: Auth):
    store.account("op")
    store.put("", "pods", {"metadata": {"name": "p", "namespace": "default"}, "spec": {"serviceAccountName": "op"}})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    answer = await request_token(auth, store, {"boundObjectRef": bound, "expirationSeconds": 3607})
    claims = unverified(answer["status"]["token"])
    assert claims is not None
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
    assert claims["kubernetes.io"]["warnafter"] == claims["iat"] + 3607
    assert claims["kubernetes.io"]["pod"]["name"] == "p"
    assert answer["status"]["expirationTimestamp"] == "2027-01-15T09:00:07Z"


@pytest.mark.parametrize(
    ("spec", "metadata", "code", "message"),
    [
        (
            {"expirationSeconds": 10},
            {},
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 10: may not '
            "specify a duration less than 10 minutes",
        ),
        (
            {},
            {"name": "x"},
            422,
            'TokenRequest.authentication.k8s.io "op" is invalid: metadata.name: Invalid value: "x": must match the '
            "service account name if specified",
        ),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, {}, 404, 'pods "x" not found'),
        (
            {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}},
            {},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
    ],
)
async def test_a_token_that_cannot_be_given_is_refused(
    store: Store, auth: Auth, spec: dict, metadata: dict, code: int, message: str
):
    store.account("op")
    with pytest.raises(APIError) as refused:
        await request_token(auth, store, spec, **metadata)
    assert (refused.value.code, refused.value.message) == (code, message)


async def test_no_token_for_an_account_that_is_not_there(store: Store, auth: Auth):
    with pytest.raises(APIError, match='serviceaccounts "nope" not found'):
        await request_token(auth, store, {}, account="nope")
