"""Every way in which a kubeconfig is wrong ends in one error: the file, the entry, the field, the way out."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

import pytest

from steersman.client.config import Config, ConfigError, TlsConfig, load_config

V1 = "client.authentication.k8s.io/v1"
OIDC = {"idp-issuer-url": "https://idp", "client-id": "k"}


def failure(path: Path, context: str | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(path, context, env={})
    error = caught.value
    text = "".join(traceback.format_exception(error))
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    assert "hunter2" not in text
    assert str(path) in str(error)
    return error


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("token: *hunter2\n", "not valid YAML in line 1"),
        ("users: [{name: u, user: {token: 'hunter2}}]", "not valid YAML"),
        ("a: b: c", "not valid YAML in line 1, column 5"),
        ("\tx", "not valid YAML"),
        ("- a\n- b", "must be a mapping, not a list"),
        ("just text", "must be a mapping, not a string"),
        ("kind: Deployment\napiVersion: apps/v1", "not a kubeconfig"),
        ("clusters: {a: b}", "must be a list, not a mapping"),
        ("clusters: [a]", "must be a mapping, not a string"),
        ("clusters: [{name: c, cluster: https}]", "must be a mapping, not a string"),
        ("users: [{name: [1], user: {}}]", "must be a string, not a list"),
        ("users: [{name: u, user: {}}, {name: u, user: {}}]", 'the name "u" occurs twice'),
        ("current-context: gone", 'there is no context "gone"'),
        ("contexts: [{name: a, context: {}}]", "no context is set"),
        ("", "no context is set"),
        ("[" * 30_000, "exceeded max depth"),
        ("a: &a [*a]", "value contains itself"),
        (
            "a: &a {x: y}\n"
            + "".join(f"{chr(n + 1)}: &{chr(n + 1)} {{<<: [*{chr(n)},*{chr(n)}]}}\n" for n in range(97, 122)),
            "excessive aliasing",
        ),
        ("x: !!python/object:os.system hunter2", "not valid YAML"),
    ],
)
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    assert problem in str(failure(path))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x00\x01", b"a: \xc3\x28"])
def test_binary_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    assert "YAML" in str(failure(path)) or "mapping" in str(failure(path))


def test_a_missing_explicit_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    assert "No such file" in str(failure(tmp_path / "gone"))
    assert "Is a directory" in str(failure(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_refused(kubeconfig) -> None:
    path = kubeconfig()
    path.chmod(0)
    assert "Permission denied" in str(failure(path))


@pytest.mark.parametrize(
    ("user", "field", "problem"),
    [
        ({"token": ["hunter2"]}, "token", "must be a string, not a list"),
        ({"token": "hunter2\nX-Evil: 1"}, "token", "not valid in an HTTP header"),
        ({"token": "   "}, "token", "empty"),
        ({"tokenFile": "gone"}, "tokenFile", "No such file"),
        ({"token": "hunter2", "username": "u"}, "", "token and username/password exclude each other"),
        ({"token": "hunter2", "exec": {"command": "x"}}, "", "token and exec exclude each other"),
        ({"exec": {}, "auth-provider": {}}, "", "exec and auth-provider exclude each other"),
        ({"exec": "aws"}, "exec", "must be a mapping"),
        ({"exec": {"apiVersion": V1}}, "exec.command", "no command"),
        ({"exec": {"command": "x"}}, "exec.apiVersion", "no apiVersion"),
        (
            {"exec": {"command": "x", "apiVersion": V1 + "alpha1"}},
            "exec.apiVersion",
            "unsupported apiVersion",
        ),
        ({"exec": {"command": "x", "apiVersion": V1}}, "exec.interactiveMode", "required"),
        (
            {"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "?"}},
            "exec.interactiveMode",
            "unknown",
        ),
        (
            {
                "exec": {
                    "command": "x",
                    "apiVersion": V1,
                    "interactiveMode": "Never",
                    "env": [{"value": "hunter2"}],
                }
            },
            "exec.env[0].name",
            "needs a name",
        ),
        (
            {"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "Never", "args": [["a"]]}},
            "exec.args",
            "list of strings",
        ),
        (
            {
                "exec": {
                    "command": "x",
                    "apiVersion": V1,
                    "interactiveMode": "Never",
                    "provideClusterInfo": "?",
                }
            },
            "exec.provideClusterInfo",
            "true or false",
        ),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider.name", "use an exec plugin"),
        ({"auth-provider": {"name": "oidc"}}, "auth-provider.config", "no config"),
        (
            {"auth-provider": {"name": "oidc", "config": {}}},
            "auth-provider.config.idp-issuer-url",
            "requires this field",
        ),
        (
            {"auth-provider": {"name": "oidc", "config": OIDC | {"idp-certificate-authority-data": "aGk="}}},
            "auth-provider.config.idp-certificate-authority-data",
            "not a PEM certificate bundle",
        ),
        ({"client-certificate": "gone", "client-key": "gone"}, "client-certificate", "No such file"),
        ({"client-certificate": "x"}, "client-key", "without its key"),
        ({"client-key": "x"}, "client-certificate", "without its certificate"),
        ({"client-certificate": "x", "client-certificate-data": "aGk="}, "client-certificate", "exclude"),
        ({"client-certificate-data": "%%", "client-key-data": "aGk="}, "client-certificate-data", "base64"),
        (
            {"client-certificate-data": "aGk=", "client-key-data": "aGk="},
            "client-certificate-data",
            "not a PEM",
        ),
        ({"as-groups": ["dev"]}, "as", "need a user"),
        ({"as": "x", "as-groups": "dev"}, "as-groups", "list of strings"),
    ],
)
def test_a_wrong_user_is_refused(kubeconfig, user: Any, field: str, problem: str) -> None:
    error = failure(kubeconfig(user=user))
    assert (error.entry, error.field) == ('user "u"', field)
    assert problem in str(error)


@pytest.mark.parametrize(
    ("cluster", "field", "problem"),
    [
        ({"server": ""}, "server", "the server is empty"),
        ({"server": None}, "server", "the server is empty"),
        ({"server": "kube:6443"}, "server", "no scheme"),
        ({"server": "ftp://kube"}, "server", "unsupported scheme 'ftp'"),
        ({"server": "https://"}, "server", "no host"),
        ({"server": "https://kube:port"}, "server", "not a valid URL"),
        ({"server": "https://u:hunter2@kube"}, "server", "must not hold credentials"),
        ({"certificate-authority": "gone"}, "certificate-authority", "No such file"),
        (
            {"certificate-authority-data": "aGk="},
            "certificate-authority-data",
            "not a PEM certificate bundle",
        ),
        ({"certificate-authority-data": "a"}, "certificate-authority-data", "not valid base64"),
        (
            {"certificate-authority": "x", "certificate-authority-data": "aGk="},
            "certificate-authority",
            "exclude each other",
        ),
        ({"insecure-skip-tls-verify": "maybe"}, "insecure-skip-tls-verify", "true or false"),
        ({"proxy-url": "ftp://u:hunter2@p"}, "proxy-url", "not a usable proxy URL"),
    ],
)
def test_a_wrong_cluster_is_refused(kubeconfig, cluster: Any, field: str, problem: str) -> None:
    error = failure(kubeconfig(cluster=cluster))
    assert (error.entry, error.field) == ('cluster "c"', field)
    assert problem in str(error)


def test_insecure_beside_a_ca_is_refused_as_kubectl_does(kubeconfig, pair, b64) -> None:
    cluster = {"certificate-authority-data": b64(pair[0]), "insecure-skip-tls-verify": True}
    assert "exclude each other" in str(failure(kubeconfig(cluster=cluster)))
    with pytest.raises(ConfigError, match="exclude each other"):
        TlsConfig(ca_pem=pair[0], insecure=True)


def test_broken_references_name_the_choices(kubeconfig) -> None:
    assert 'there is no context "z"; choose one of: x' in str(failure(kubeconfig(), "z"))
    assert 'there is no cluster "z"; choose one of: c' in str(failure(kubeconfig(context={"cluster": "z"})))
    assert 'there is no user "z"; choose one of: u' in str(failure(kubeconfig(context={"user": "z"})))
    assert "has no cluster" in str(failure(kubeconfig(context={"cluster": ""})))


def test_unusable_client_certificates_are_refused(kubeconfig, pki, pair, b64) -> None:
    def user(cert: bytes, key: bytes) -> dict[str, str]:
        return {"client-certificate-data": b64(cert), "client-key-data": b64(key)}

    mismatch = failure(kubeconfig(user=user(pair[0], pki.pair()[1])))
    assert mismatch.field == "client-key-data"
    assert "does not belong to the certificate" in str(mismatch)
    expired = failure(kubeconfig(user=user(*pki.pair(days=-1))))
    assert expired.field == "client-certificate-data"
    assert "expired at 20" in str(expired)
    broken = pair[1].replace(b"\n", b"\nAAAA", 2)
    assert "not a usable private key" in str(failure(kubeconfig(user=user(pair[0], broken))))
    sealed = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    assert "encrypted" in str(failure(kubeconfig(user=user(pair[0], sealed))))


def test_a_broken_user_of_another_context_harms_nobody(kubeconfig) -> None:
    users = [{"name": "u", "user": {}}, {"name": "broken", "user": {"token": ["x"], "exec": 3}}]
    assert load_config(kubeconfig(users=users), env={}).server == "https://kube.test:6443"


@pytest.mark.parametrize("url", ["127.0.0.1:8001", "unix:///run/x", "", "http://h?x=1"])
def test_for_url_refuses_what_is_no_server(url: str) -> None:
    with pytest.raises(ConfigError):
        Config.for_url(url)
