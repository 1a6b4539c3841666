from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from steersman.client.config import Config, ConfigError, TlsConfig, load_config
from steersman.client.config.kubeconfig import load_kubeconfig

FIRST = """
apiVersion: v1
kind: Config
clusters:
- name: shared
  cluster: {server: "https://first:1", certificate-authority: ca/first.pem}
users:
- name: shared
  user: {token: first}
contexts:
- name: a
  context: {cluster: shared, user: shared}
preferences: {}
extensions: [{name: x, extension: {any: thing}}]
"""
SECOND = """
apiVersion: v1
kind: Config
clusters:
- name: shared
  cluster: {server: "https://second:1", tls-server-name: only-in-second}
- name: other
  cluster: {server: "https://other:1", certificate-authority: ca/other.pem, unknown-field: 1}
users:
- name: shared
  user: {username: second}
- name: other
  user: {client-certificate: c.pem, client-key: /abs/k.pem, tokenFile: ../t}
contexts:
- name: a
  context: {cluster: other, user: other, namespace: lost}
- name: b
  context: {cluster: other, user: other, namespace: prod}
current-context: b
"""
THIRD = "clusters: null\nusers: null\ncontexts: null\ncurrent-context: a\n"


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    files = [
        tmp_path / "one" / "config",
        tmp_path / "missing",
        tmp_path / "two" / "config",
        tmp_path / "third",
    ]
    for file, text in zip(files, (FIRST, None, SECOND, THIRD), strict=True):
        if text is not None:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    return files


def test_the_first_file_that_has_an_entry_wins_it_whole(three: list[Path]) -> None:
    merged = load_kubeconfig(three)
    assert merged.clusters["shared"].fields == {
        "server": "https://first:1",
        "certificate-authority": "ca/first.pem",
    }
    assert merged.users["shared"].fields == {"token": "first"}
    assert merged.contexts["a"].fields["cluster"] == "shared"
    assert merged.current_context == "b"


def test_relative_paths_belong_to_their_own_file(three: list[Path], tmp_path: Path) -> None:
    merged = load_kubeconfig(three)
    assert merged.clusters["shared"].file_path("certificate-authority") == tmp_path / "one/ca/first.pem"
    assert merged.clusters["other"].file_path("certificate-authority") == tmp_path / "two/ca/other.pem"
    assert merged.users["other"].file_path("client-key") == Path("/abs/k.pem")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_merging_agrees_with_kubectl(three: list[Path]) -> None:
    env = {**os.environ, "KUBECONFIG": os.pathsep.join(map(str, three))}
    shown = subprocess.run(
        ["kubectl", "config", "view", "--raw", "--merge", "-o", "json"],
        env=env,
        capture_output=True,
        check=True,
        timeout=30,
    )
    theirs = json.loads(shown.stdout)
    ours = load_kubeconfig(three)
    assert ours.current_context == theirs["current-context"]
    for plural, singular in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        entries = {e["name"]: e[singular] for e in theirs[plural]}
        mine = getattr(ours, plural)
        assert mine.keys() == entries.keys()
        for name, fields in entries.items():
            own = {key: value for key, value in mine[name].fields.items() if key != "unknown-field"}
            assert own.keys() == fields.keys()
            for key, value in fields.items():  # kubectl shows paths resolved or as written, by version
                assert own[key] == value or (mine[name].file.parent / own[key]).resolve() == Path(value)


def test_kubeconfig_variable_is_read_before_the_home_directory(three: list[Path], tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube/config").write_text(FIRST.replace("ca/first.pem", '""') + "current-context: a\n")
    assert load_config(env={}, home=home).server == "https://first:1"
    (tmp_path / "x").write_text(
        "clusters: [{name: c, cluster: {server: 'http://var:8001/'}}]\n"
        "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
    )
    env = {"KUBECONFIG": f"{tmp_path}/nothing::{tmp_path}/x"}
    config = load_config(env=env, home=home)
    assert (config.server, config.namespace, config.context) == ("http://var:8001", "default", "x")


def test_a_context_is_chosen_by_name_and_gives_the_namespace(kubeconfig) -> None:
    contexts = [
        {"name": "x", "context": {"cluster": "c", "user": "u"}},
        {"name": "y", "context": {"cluster": "c", "namespace": "prod"}},
    ]
    path = kubeconfig(contexts=contexts)
    assert load_config(path, env={}).namespace == "default"
    chosen = load_config(path, "y", env={})
    assert (chosen.namespace, chosen.context) == ("prod", "y")


def test_cluster_options_reach_the_config(kubeconfig, pair, b64) -> None:
    cluster = {
        "certificate-authority-data": b64(pair[0]),
        "tls-server-name": "real.name",
        "proxy-url": "socks5://proxy:1080",
        "disable-compression": True,
    }
    config = load_config(kubeconfig(cluster=cluster), env={"HTTPS_PROXY": "http://other:1"})
    assert config.tls == TlsConfig(ca_pem=pair[0], server_name="real.name")
    assert config.proxy == "socks5://proxy:1080"
    assert config.disable_compression is True
    assert load_config(kubeconfig(cluster={"insecure-skip-tls-verify": True}), env={}).tls.insecure is True


def test_impersonation_headers_repeat_groups_and_escape_extra_keys(kubeconfig) -> None:
    user = {
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"example.org/scopes": ["a", "b"]},
    }
    who = load_config(kubeconfig(user=user), env={}).impersonate
    assert who is not None
    assert who.headers() == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.org%2Fscopes", "a"),
        ("Impersonate-Extra-example.org%2Fscopes", "b"),
    )


async def test_kubectl_proxy_needs_nothing_but_its_url() -> None:
    config = Config.for_url("http://127.0.0.1:8001/")
    assert config.server == "http://127.0.0.1:8001"
    assert dict(await config.auth.headers()) == {}
    assert config.auth.client_certificate() is None


async def test_text_that_looks_like_another_type_stays_text(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "clusters: [{name: 1.10, cluster: {server: 'https://k:1'}}]\nusers: [{name: no, user: {token: 0123}}]\n"
        "contexts: [{name: 2026-01-01, context: {cluster: 1.10, user: no}}]\ncurrent-context: 2026-01-01\n"
    )
    config = load_config(file, env={})
    assert await config.auth.headers() == {"Authorization": "Bearer 0123"}


def test_no_secret_is_in_any_repr(kubeconfig, pair, b64) -> None:
    user = {"token": "s3cret-token", "client-certificate-data": b64(pair[0]), "client-key-data": b64(pair[1])}
    config = load_config(kubeconfig(user=user, cluster={"proxy-url": "http://me:s3cret-pw@proxy:1"}), env={})
    shown = repr(config) + repr(config.auth) + repr(config.auth.client_certificate()) + repr(config.tls)
    assert "s3cret" not in shown
    assert "PRIVATE" not in shown


def test_without_any_configuration_the_error_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"searched .*\.kube/config.*set KUBECONFIG"):
        load_config(env={}, home=tmp_path)
