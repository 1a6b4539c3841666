"""Authentication: certificates, tokens, impersonation."""

import stat
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from multidict import CIMultiDict

from steersman.pki import Authority
from steersman_cluster.auth import (
    ANONYMOUS,
    MASTERS,
    SERVING_HOSTS,
    Attributes,
    Auth,
    InvalidTokenError,
    SigningKey,
    kubeconfig,
    write_kubeconfig,
)
from steersman_cluster.errors import APIError

from .conftest import Clock, Store, rule, subject, user

LIST = Attributes("list", "", "v1", "configmaps", namespace="default")
CREDENTIAL = "authentication.kubernetes.io/credential-id"


def bearer(token: str) -> CIMultiDict[str]:
    return CIMultiDict({"authorization": f"Bearer {token}"})


def der(pem: bytes) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def who(auth: Auth, headers: CIMultiDict[str], peer: bytes | None = None):
    return auth.identify(headers, LIST, peer)[1]


def test_a_client_certificate_says_user_and_groups(auth: Auth):
    pair = auth.authority.client("admin", ["b-group", MASTERS])
    found = who(auth, CIMultiDict(), der(pair.cert_pem))
    assert (found.name, found.groups) == ("admin", ("b-group", MASTERS, "system:authenticated"))
    assert found.extra[CREDENTIAL][0].startswith("X509SHA256=")
    assert repr(pair).count("PRIVATE") == 0


def test_the_serving_certificate_is_good_for_the_loopback_and_the_service():
    certificate = x509.load_pem_x509_certificate(Authority.create().serving("kube-apiserver", SERVING_HOSTS).cert_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "kubernetes.default.svc"} <= set(names.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "::1"} <= {str(item) for item in names.get_values_for_type(x509.IPAddress)}


def test_an_authority_that_was_kept_signs_as_before():
    first = Authority.create()
    again = Authority.load(first.pair)
    issued = x509.load_pem_x509_certificate(again.client("x", valid_for=timedelta(hours=1)).cert_pem)
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(first.cert_pem))


def test_who_shows_nothing_is_anonymous(auth: Auth):
    assert who(auth, CIMultiDict()) == ANONYMOUS
    assert who(auth, CIMultiDict(Authorization="Bearer")) == ANONYMOUS
    assert who(auth, CIMultiDict(Authorization="Basic abc")) == ANONYMOUS


@pytest.mark.parametrize("token", ["bad", "a.b.c", "..", "é.é.é", "e30.e30.e30"])
def test_a_bad_token_is_unauthorized(auth: Auth, token: str):
    with pytest.raises(APIError) as refused:
        who(auth, bearer(token))
    assert refused.value.code == 401


def test_a_static_token_stands_for_its_user(auth: Auth):
    auth.authenticator.add_token("secret-token", user("jane"))
    assert who(auth, bearer("secret-token")).name == "jane"


def test_a_service_account_token_stands_for_the_account(store: Store, auth: Auth):
    account = store.account("op")
    found = who(auth, bearer(auth.tokens.bound(account, seconds=600)))
    assert found.name == "system:serviceaccount:default:op"
    assert found.uid == account["metadata"]["uid"]
    assert found.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    )
    assert found.extra[CREDENTIAL][0].startswith("JTI=")


def test_a_token_ends_a_minute_after_its_time(store: Store, auth: Auth, clock: Clock):
    token = auth.tokens.bound(store.account("op"), seconds=600)
    clock.seconds += 655
    who(auth, bearer(token))
    clock.seconds += 10
    with pytest.raises(InvalidTokenError, match="service account token has expired"):
        auth.tokens.verify(token)


def test_a_token_ends_with_its_account(store: Store, auth: Auth):
    token = auth.tokens.bound(store.account("op"), seconds=600)
    store.delete("", "serviceaccounts", "default", "op")
    with pytest.raises(APIError, match='serviceaccounts "op" not found'):
        auth.tokens.verify(token)
    store.put("", "serviceaccounts", {"metadata": {"name": "op", "namespace": "default", "uid": "other"}})
    with pytest.raises(InvalidTokenError, match=r"service account UID \(other\) does not match claim"):
        auth.tokens.verify(token)


def test_a_token_ends_with_the_pod_it_is_bound_to(store: Store, auth: Auth):
    pod = store.put("", "pods", {"metadata": {"name": "p", "namespace": "default"}})
    token = auth.tokens.bound(store.account("op"), seconds=600, pod=pod)
    extra = auth.tokens.verify(token).user.extra
    assert extra["authentication.kubernetes.io/pod-name"] == ("p",)
    store.delete("", "pods", "default", "p")
    with pytest.raises(InvalidTokenError, match="service account token has been invalidated"):
        auth.tokens.verify(token)


def test_a_token_is_good_for_its_audiences_only(store: Store, auth: Auth):
    token = auth.tokens.bound(store.account("op"), seconds=600, audiences=["a", "b"])
    assert auth.tokens.verify(token, ["b", "c"]).audiences == ("b",)
    with pytest.raises(InvalidTokenError) as refused:
        auth.tokens.verify(token)
    assert str(refused.value) == (
        'token audiences ["a" "b"] is invalid for the target audiences ["https://kubernetes.default.svc.cluster.local"]'
    )


def test_a_token_of_another_key_is_not_ours(store: Store, auth: Auth):
    token = SigningKey().sign({"iss": auth.tokens.issuer})
    with pytest.raises(InvalidTokenError):
        auth.tokens.verify(token)
    assert auth.tokens.key.verify(SigningKey.load(auth.tokens.key.pem).sign({"a": 1})) == {"a": 1}


def test_a_legacy_token_is_good_while_its_secret_holds_it(store: Store, auth: Auth):
    import base64

    account = store.account("op")
    secret = {"metadata": {"name": "op-token", "namespace": "default"}, "data": {}}
    token = auth.tokens.legacy(account, secret)
    with pytest.raises(InvalidTokenError):
        auth.tokens.verify(token)
    secret["data"]["token"] = base64.b64encode(token.encode()).decode()
    store.put("", "secrets", secret)
    assert auth.tokens.verify(token).user.name == "system:serviceaccount:default:op"
    store.delete("", "secrets", "default", "op-token")
    with pytest.raises(InvalidTokenError, match="invalidated"):
        auth.tokens.verify(token)


def test_a_kubeconfig_is_for_its_owner_only(tmp_path: Path):
    path = tmp_path / "new" / "config"
    pair = Authority.create().client("admin", [MASTERS])
    write_kubeconfig(path, kubeconfig("https://127.0.0.1:1", b"ca", pair))
    write_kubeconfig(path, kubeconfig("https://127.0.0.1:2", b"ca", "token"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = yaml.safe_load(path.read_text())
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:2"
    assert document["users"][0]["user"] == {"token": "token"}
    assert [item.name for item in path.parent.iterdir()] == ["config"]


def acting(**headers: str) -> CIMultiDict[str]:
    return CIMultiDict({f"Impersonate-{key.replace('_', '-')}": value for key, value in headers.items()})


def test_masters_may_act_as_anybody(auth: Auth):
    admin = user("admin", MASTERS)
    headers = acting(User="jane", Uid="7", Extra_Scopes="view")
    headers.add("impersonate-group", "devs")
    requester, found = auth.identify(headers, LIST, admin)
    assert requester is admin
    assert (found.name, found.uid, found.groups) == ("jane", "7", ("devs", "system:authenticated"))
    assert found.extra == {"scopes": ("view",)}


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("system:serviceaccount:a:b", ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")),
        ("system:anonymous", ("system:unauthenticated",)),
        ("system:node:n1", ("system:nodes", "system:authenticated")),
        ("jane", ("system:authenticated",)),
    ],
)
def test_the_groups_of_who_is_acted_as_follow_from_the_name(auth: Auth, name: str, groups: tuple):
    assert auth.identify(acting(User=name), LIST, user("admin", MASTERS))[1].groups == groups


def test_a_group_alone_cannot_be_acted_as(auth: Auth):
    with pytest.raises(APIError) as refused:
        auth.identify(acting(Group="x"), LIST, user("admin", MASTERS))
    assert refused.value.code == 400
    assert refused.value.message == (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"x"}, Extra:map[string][]string(nil)} '
        "without impersonating a user name"
    )


def test_who_may_not_act_as_others_is_told_of_the_new_way(auth: Auth):
    with pytest.raises(APIError) as refused:
        auth.identify(acting(User="jane"), LIST, user("joe"))
    assert refused.value.message == (
        'configmaps is forbidden: User "joe" cannot impersonate-on:user-info:list resource "configmaps" in API group '
        '"" in the namespace "default"'
    )


def test_the_old_way_still_allows_and_then_speaks_first(store: Store, auth: Auth):
    store.role("imp", rule("impersonate", "users", names="jane"))
    store.bind("imp", "imp", subject("joe"))
    assert auth.identify(acting(User="jane"), LIST, user("joe"))[1].name == "jane"
    with pytest.raises(APIError) as refused:
        auth.identify(acting(User="jane", Group="devs"), LIST, user("joe"))
    assert refused.value.message == (
        'groups "devs" is forbidden: User "joe" cannot impersonate resource "groups" in API group "" at the cluster '
        "scope"
    )


def test_the_new_way_needs_both_permissions(store: Store, auth: Auth):
    store.role("on", rule("impersonate-on:user-info:list", "configmaps"))
    store.bind("on", "on", subject("joe"))
    with pytest.raises(APIError, match="cannot impersonate:user-info resource"):
        auth.identify(acting(User="jane"), LIST, user("joe"))
    store.role("who", rule("impersonate:user-info", "users", "authentication.k8s.io", names="jane"))
    store.bind("who", "who", subject("joe"))
    assert auth.identify(acting(User="jane"), LIST, user("joe"))[1].name == "jane"
    with pytest.raises(APIError, match="impersonating the system:masters group is not allowed"):
        auth.identify(acting(User="jane", Group=MASTERS), LIST, user("joe"))
