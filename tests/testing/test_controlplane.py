"""The control plane fixture's parts that need no binaries: finding, certificates, processes, the audit log."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from steersman.testing.cluster_http import client_context
from steersman.testing.controlplane.audit import AuditPolicy, complete_last_line, read_audit_log
from steersman.testing.controlplane.binaries import BinariesNotFoundError, available, find_binaries
from steersman.testing.controlplane.pki import authority as new_authority
from steersman.testing.controlplane.pki import write_pair
from steersman.testing.controlplane.process import Component, ComponentError, free_ports, wait_until
from steersman.testing.kubeconfigs import cluster_at, token_user, write_kubeconfig

SLEEPER = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


def eventually(holds: Callable[[], bool]) -> None:
    wait_until(holds, what="what the test waits for", deadline=time.monotonic() + 120, interval=0.01)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def binaries_in(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


# --- finding binaries


def test_without_binaries_the_reason_names_every_way_out(tmp_path: Path) -> None:
    reason = available(env={"XDG_CACHE_HOME": str(tmp_path)})

    assert reason is not None
    for way in (
        "hack/controlplane/build.sh",
        "steersman cluster assets install",
        "STEERSMAN_CONTROLPLANE",
        "KUBEBUILDER_ASSETS",
    ):
        assert way in reason


def test_a_build_in_the_cache_is_found(tmp_path: Path) -> None:
    directory = binaries_in(tmp_path / "steersman/controlplane/v1.36.2-abc/bin", "etcd", "kube-apiserver")

    assert find_binaries({"XDG_CACHE_HOME": str(tmp_path)}).directory == directory


def test_of_several_versions_in_the_cache_the_current_one_wins_and_then_the_newest(tmp_path: Path) -> None:
    root = tmp_path / "steersman/controlplane"
    old = binaries_in(root / "v1.9.0-x/bin", "etcd", "kube-apiserver")
    new = binaries_in(root / "envtest-v1.35.0-linux-amd64/bin", "etcd", "kube-apiserver")
    env = {"XDG_CACHE_HOME": str(tmp_path)}

    assert find_binaries(env).directory == new
    (root / "current").symlink_to("v1.9.0-x")
    assert find_binaries(env).directory == old


def test_a_half_finished_build_is_passed_over(tmp_path: Path) -> None:
    root = tmp_path / "steersman/controlplane"
    binaries_in(root / "v1.36.2-new/bin", "etcd")
    complete = binaries_in(root / "v1.36.2-a-old/bin", "etcd", "kube-apiserver")

    assert find_binaries({"XDG_CACHE_HOME": str(tmp_path)}).directory == complete


def test_the_explicit_directory_comes_before_the_cache_and_envtest_after_it(tmp_path: Path) -> None:
    explicit = binaries_in(tmp_path / "mine", "etcd", "kube-apiserver")
    envtest = binaries_in(tmp_path / "envtest", "etcd", "kube-apiserver")
    env = {"XDG_CACHE_HOME": str(tmp_path), "KUBEBUILDER_ASSETS": str(envtest)}

    assert find_binaries(env).directory == envtest
    cached = binaries_in(tmp_path / "steersman/controlplane/v1/bin", "etcd", "kube-apiserver")
    assert find_binaries(env).directory == cached
    assert find_binaries({**env, "STEERSMAN_CONTROLPLANE": str(explicit)}).directory == explicit


def test_a_named_directory_that_lacks_a_binary_is_an_error_not_a_fallback(tmp_path: Path) -> None:
    binaries_in(tmp_path / "steersman/controlplane/v1/bin", "etcd", "kube-apiserver")
    broken = binaries_in(tmp_path / "mine", "etcd")
    env = {"XDG_CACHE_HOME": str(tmp_path), "STEERSMAN_CONTROLPLANE": str(broken)}

    with pytest.raises(BinariesNotFoundError, match=r"\$STEERSMAN_CONTROLPLANE.*lacks kube-apiserver"):
        find_binaries(env)


def test_a_missing_optional_binary_is_named_with_what_needed_it(tmp_path: Path) -> None:
    envtest = binaries_in(tmp_path / "envtest", "etcd", "kube-apiserver")
    found = find_binaries({"XDG_CACHE_HOME": str(tmp_path), "KUBEBUILDER_ASSETS": str(envtest)})

    with pytest.raises(BinariesNotFoundError, match="scheduler=True needs kube-scheduler"):
        found.require("kube-scheduler", "scheduler=True")


# --- building them

BUILD = Path(__file__).parents[2] / "hack/controlplane/build.sh"

FAKE_GO = """#!/bin/sh
for last; do :; done
echo "$last" >> "$CALLS"
[ "$last" != "$BROKEN" ] || exit 1
while [ "$1" != -o ]; do shift; done
echo binary > "$2"
chmod +x "$2"
"""


def build(cache: Path, *args: str, broken: str = "") -> subprocess.CompletedProcess[str]:
    """Run the build with a compiler that only records its arguments."""
    tools = cache / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "go").write_text(FAKE_GO)
    (tools / "go").chmod(0o755)
    env = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(cache),
        "CALLS": str(cache / "calls"),
        "BROKEN": broken,
    }
    return subprocess.run([str(BUILD), *args], env=env, capture_output=True, text=True, check=False)


def test_a_build_lands_where_the_fixture_looks_and_is_done_once(tmp_path: Path) -> None:
    first = build(tmp_path)
    calls = (tmp_path / "calls").read_text().split()
    second = build(tmp_path)

    assert first.returncode == second.returncode == 0
    assert sorted(calls) == [
        "./cmd/etcd",
        "./cmd/kube-apiserver",
        "./cmd/kube-controller-manager",
        "./cmd/kube-scheduler",
        "./cmd/kubectl",
    ]
    assert (tmp_path / "calls").read_text().split() == calls
    found = find_binaries({"XDG_CACHE_HOME": str(tmp_path)})
    assert str(found.directory) == build(tmp_path, "--print").stdout.strip()
    assert found.find("kube-scheduler") is not None


def test_a_build_that_fails_leaves_no_half_binary_and_is_taken_up_again(tmp_path: Path) -> None:
    failed = build(tmp_path, broken="./cmd/kube-apiserver")

    assert failed.returncode != 0
    assert available(env={"XDG_CACHE_HOME": str(tmp_path)}) is not None
    assert list((tmp_path / "steersman").rglob(".build.*")) == []
    assert build(tmp_path).returncode == 0
    assert (tmp_path / "calls").read_text().split().count("./cmd/etcd") == 1
    assert available(env={"XDG_CACHE_HOME": str(tmp_path)}) is None


# --- certificates and kubeconfigs


def test_private_keys_and_kubeconfigs_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    pair = new_authority("ca").client("jane")
    _, key = write_pair(pair, tmp_path, "jane")
    config = write_kubeconfig(
        tmp_path / "config", cluster=cluster_at("https://x", b""), user=token_user("s3cret"), name="jane"
    )

    assert key.stat().st_mode & 0o777 == 0o600
    assert config.stat().st_mode & 0o777 == 0o600


def test_private_keys_do_not_show_in_reprs() -> None:
    authority = new_authority("ca")

    assert "PRIVATE" not in repr(authority)
    assert "PRIVATE" not in repr(authority.client("jane"))


def test_serving_certificates_verify_strictly(tmp_path: Path) -> None:
    authority = new_authority("ca")
    cert, key = write_pair(authority.serving("server", ("127.0.0.1", "localhost")), tmp_path, "server")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    client = client_context(authority.pair.cert_pem)
    client.verify_flags |= ssl.VERIFY_X509_STRICT

    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for end in (near, far, near, far):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue

    assert near.getpeercert()


def test_a_negative_lifetime_makes_an_expired_certificate() -> None:
    pair = new_authority("ca").client("jane", groups=("dev",), valid_for=timedelta(seconds=-1))

    cert = x509.load_pem_x509_certificate(pair.cert_pem)
    assert cert.not_valid_before_utc < cert.not_valid_after_utc < datetime.now(UTC)


# --- processes


def test_a_component_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such flag: --frobnicate'); raise SystemExit(3)"]
    component = Component("kube-thing", command, log=tmp_path / "log")

    with pytest.raises(ComponentError, match=r"kube-thing ended with status 3(.|\n)*no such flag: --frobnicate"):
        wait_until(
            lambda: False, what="kube-thing", deadline=time.monotonic() + 20, components=[component], interval=0.01
        )


def test_a_component_that_never_gets_ready_is_reported_at_the_deadline(tmp_path: Path) -> None:
    component = Component("kube-thing", SLEEPER, log=tmp_path / "log")

    with pytest.raises(ComponentError, match="kube-thing is not ready in time"):
        wait_until(lambda: False, what="kube-thing", deadline=time.monotonic(), components=[component])
    component.kill()


def test_stopping_kills_what_the_component_started_too_and_may_be_repeated(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); time.sleep(600)"
    )
    log = tmp_path / "log"
    component = Component("parent", [sys.executable, "-c", script, *SLEEPER], log=log)
    eventually(lambda: log.read_text().endswith("\n"))
    grandchild = int(log.read_text())

    component.stop()
    component.stop()

    assert not is_alive(grandchild)
    assert not component.running


def test_a_component_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """The kernel's death signal follows the forking thread; a chaos test restarts components from threads."""
    components: list[Component] = []
    thread = threading.Thread(target=lambda: components.append(Component("c", SLEEPER, log=tmp_path / "log")))
    thread.start()
    thread.join()
    component = components[0]
    executable = Path(f"/proc/{component.pid}/cmdline")
    eventually(lambda: b"prctl" not in executable.read_bytes())

    assert component.running
    component.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
def test_a_component_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from steersman.testing.controlplane.process import Component\n"
        "c = Component('c', sys.argv[2:], log=Path(sys.argv[1])); print(c.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "log"), *SLEEPER], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        os.kill(parent.pid, signal.SIGKILL)

    eventually(lambda: not is_alive(child))


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's port range")
def test_ports_lie_outside_the_range_of_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    ports = free_ports(5)

    assert len(set(ports)) == 5
    assert max(ports) < max(lowest, 32768)


# --- the audit log


def audit_line(**changes: object) -> str:
    event = {
        "auditID": "a1",
        "stage": "ResponseComplete",
        "verb": "create",
        "requestURI": "/apis/apps/v1/namespaces/x/deployments",
        "user": {"username": "jane", "groups": ["dev"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "steersman/0.1",
        "objectRef": {"resource": "deployments", "namespace": "x", "name": "web", "apiGroup": "apps"},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": "2026-01-02T03:04:05.000001Z",
        "stageTimestamp": "2026-01-02T03:04:05.000009Z",
    }
    return json.dumps(event | changes) + "\n"


def test_audit_events_are_filtered_by_who_did_what(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(
        audit_line()
        + audit_line(stage="RequestReceived", responseStatus=None)
        + audit_line(verb="get")
        + audit_line(user={"username": "bob"})
    )

    (event,) = read_audit_log(log, verbs=("create",), resource="deployments", user="jane", user_agent="steersman/")

    assert (event.name, event.namespace, event.group, event.code, event.is_write) == ("web", "x", "apps", 201, True)
    assert event.received.tzinfo is not None
    assert len(list(read_audit_log(log, stage=None))) == 4


def test_a_line_torn_by_a_killed_api_server_costs_no_other_event(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(audit_line() + audit_line()[:40])

    complete_last_line(log)
    with log.open("a") as file:
        file.write(audit_line(auditID="a2"))

    assert [event.audit_id for event in read_audit_log(log)] == ["a1", "a2"]


def test_an_audit_log_that_is_not_there_yet_has_no_events(tmp_path: Path) -> None:
    complete_last_line(tmp_path / "none")

    assert list(read_audit_log(tmp_path / "none")) == []


def test_the_audit_policy_never_records_bodies_of_secrets() -> None:
    rules = json.loads(AuditPolicy(level="RequestResponse", bodies=("create",)).text())["rules"]

    first = next(rule for rule in rules if "secrets" in str(rule.get("resources")))
    assert first["level"] == "Metadata"
    assert all(rule["level"] == "None" for rule in rules[: rules.index(first)])


# --- the pytest plugin


def run_pytest(directory: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "steersman.testing.plugin", "-rs", "-p", "no:cacheprovider", *args],
        cwd=directory,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "XDG_CACHE_HOME": str(directory), **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def marked_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STEERSMAN_REQUIRE_CONTROLPLANE", "STEERSMAN_CONTROLPLANE", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.realcluster\ndef test_it(): pass\ndef test_fixture(namespace): pass\n"
    )
    return tmp_path


def test_plain_pytest_runs_no_marked_test_on_a_control_plane_that_lies_in_a_cache(marked_test: Path) -> None:
    envtest = binaries_in(marked_test / "envtest", "etcd", "kube-apiserver")
    done = run_pytest(marked_test, "-k", "test_it and not fixture", KUBEBUILDER_ASSETS=str(envtest))

    assert "1 skipped" in done.stdout
    assert "needs a real kube-apiserver: run pytest --cluster=real" in done.stdout
    assert done.returncode == 0


def test_a_project_may_have_marked_tests_run_wherever_there_is_a_control_plane(marked_test: Path) -> None:
    envtest = binaries_in(marked_test / "envtest", "etcd", "kube-apiserver")
    (marked_test / "pytest.ini").write_text("[pytest]\nrealcluster = available\n")
    (marked_test / "test_it.py").write_text("import pytest\n@pytest.mark.realcluster\ndef test_it(): pass\n")
    done = run_pytest(marked_test, KUBEBUILDER_ASSETS=str(envtest))
    assert "1 passed" in done.stdout

    (marked_test / "pytest.ini").write_text("[pytest]\nrealcluster = sometimes\n")
    done = run_pytest(marked_test)
    assert "realcluster = sometimes: expected `asked` or `available`" in done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


@pytest.mark.slow
def test_without_a_control_plane_marked_tests_skip_with_the_reason(marked_test: Path) -> None:
    (marked_test / "pytest.ini").write_text("[pytest]\nrealcluster = available\n")
    done = run_pytest(marked_test)

    assert "1 passed, 1 skipped" in done.stdout  # fixtures alone run on the embedded cluster
    assert "hack/controlplane/build.sh" in done.stdout
    assert done.returncode == 0


@pytest.mark.slow
def test_where_a_control_plane_is_mandatory_its_absence_fails(marked_test: Path) -> None:
    done = run_pytest(marked_test, STEERSMAN_REQUIRE_CONTROLPLANE="1")

    assert "STEERSMAN_REQUIRE_CONTROLPLANE is set" in done.stdout
    assert "skipped" not in done.stdout
    assert done.returncode == 1


def test_a_component_that_envtest_lacks_skips_just_the_tests_that_need_it(marked_test: Path) -> None:
    envtest = binaries_in(marked_test / "envtest", "etcd", "kube-apiserver")
    (marked_test / "test_it.py").write_text(
        "import pytest\n@pytest.mark.realcluster\ndef test_api(): pass\n"
        "@pytest.mark.realcluster('kube-scheduler')\ndef test_binding(): pass\n"
    )

    done = run_pytest(marked_test, "--cluster=real", KUBEBUILDER_ASSETS=str(envtest))

    assert "1 passed, 1 skipped" in done.stdout
    assert "This needs kube-scheduler" in done.stdout


def test_an_unknown_cluster_is_refused_at_once(marked_test: Path) -> None:
    done = run_pytest(marked_test, "--cluster=minikube")

    assert "--cluster=minikube: expected" in done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    script = "import sys, steersman.testing.plugin as p; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert not {
        "cryptography",
        "aiohttp",
        "msgspec",
        "yaml",
        "typer",
        "steersman.testing.controlplane.control_plane",
    } & set(loaded)
