"""The interface of every cluster for tests: kubectl, namespaces, users with few permissions.

Tests use the interface `Cluster`. `ExistingCluster` is the cluster of a kubeconfig, with requests by kubectl only, so
that every way to authenticate works. Calls that need access to the processes (kill the API server, read its audit log)
raise `UnsupportedError` there.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict

from steersman.testing.audit import Audit
from steersman.testing.cluster_http import CallError
from steersman.testing.cluster_objects import Objects
from steersman.testing.controlplane.audit import AuditEvent, Stage, UnsupportedError, read_audit_log
from steersman.testing.controlplane.binaries import INSTALL_HINT
from steersman.testing.kubeconfigs import token_user, write_kubeconfig

if TYPE_CHECKING:
    from steersman.client.config import Config
    from steersman.testing.faults import Faults

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class KubectlError(RuntimeError):
    """kubectl ended with a non-zero status; the message is its standard error."""

    def __init__(self, arguments: Sequence[str], returncode: int, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)} ended with status {returncode}: {stderr.strip()}")
        self.returncode = returncode
        self.stderr = stderr


class PolicyRule(TypedDict, total=False):
    """An RBAC rule with the fields of a Role."""

    apiGroups: Sequence[str]
    resources: Sequence[str]
    resourceNames: Sequence[str]
    nonResourceURLs: Sequence[str]
    verbs: Sequence[str]


class Cluster(Objects):
    """A cluster for tests. Use it as a context manager, or call `close`."""

    kubeconfig: Path
    """The administrator's kubeconfig."""

    def __init__(self, *, kubeconfig: Path, directory: Path, kubectl: Path | None) -> None:
        super().__init__()
        self.kubeconfig = kubeconfig
        self.directory = directory
        self._kubectl = kubectl
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop and delete everything that this object started or wrote; idempotent."""
        raise NotImplementedError

    @contextmanager
    def test(self, namespace: str) -> Generator[Self]:
        """The scope of one test: `namespace` is new, `audit` begins with it, faults end with it."""
        before, self.namespace = self.namespace, namespace
        self.audit.begin()
        try:
            yield self
        finally:
            self.namespace = before
            self._end_faults()

    @cached_property
    def audit(self) -> Audit:
        """The API calls since the test began, with assertions about them."""
        return Audit(lambda: self.audit_log)

    @property
    def faults(self) -> Faults:
        """The faults on this cluster. Raises `UnsupportedError` if the cluster cannot inject faults."""
        raise UnsupportedError(
            f"fault injection needs the embedded cluster (--cluster=embedded), not {type(self).__name__}"
        )

    def _end_faults(self) -> None:
        """Remove all faults."""

    @property
    def config(self) -> Config:
        """The administrator's configuration, for `steersman.client.Client`."""
        from steersman.client.config import load_config

        return load_config(self.kubeconfig)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send GET, POST or DELETE as the administrator; returns the decoded response, raises `CallError`."""
        raise NotImplementedError

    def kubectl(
        self,
        *args: str,
        input: str | None = None,
        kubeconfig: Path | None = None,
        timeout: float = 60.0,
    ) -> str:
        """Run kubectl as the administrator (or with another `kubeconfig`) and return its output.

        `input` is its standard input (`-f -`); `timeout` is in seconds. Raises `KubectlError`.
        """
        if self._kubectl is None:
            raise UnsupportedError(f"There is no kubectl, beside the control plane or on PATH. {INSTALL_HINT}")
        done = subprocess.run(  # noqa: S603 - no shell; the arguments are the test's own
            [str(self._kubectl), *args],
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={
                **os.environ,
                "KUBECONFIG": str(kubeconfig or self.kubeconfig),
                # Later clusters may use the same ports, so a shared discovery cache would be wrong.
                "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
            },
        )
        if done.returncode != 0:
            raise KubectlError(args, done.returncode, done.stderr)
        return done.stdout

    def create_namespace(self, name: str) -> None:
        """Create a namespace and wait until Pods can be created in it."""
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace with its objects, if it exists, without waiting for the end."""
        with suppress(CallError):
            self.call("DELETE", f"/api/v1/namespaces/{name}")

    def service_account_kubeconfig(
        self,
        name: str,
        *,
        namespace: str = "default",
        rules: Sequence[PolicyRule] = (),
        cluster_rules: Sequence[PolicyRule] = (),
        valid_for: timedelta = timedelta(hours=8),
    ) -> Path:
        """Create a ServiceAccount with these permissions, and return a kubeconfig with a token for it.

        An existing ServiceAccount keeps its permissions and gets these, so that shipped roles can be tested. `rules`
        apply to its namespace, `cluster_rules` everywhere; both are effective when this returns. `valid_for` is at
        least ten minutes (the limit of the API server). The deletion of the ServiceAccount revokes the token.
        """
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        try:
            self.call("POST", accounts, {"metadata": {"name": name}})
        except CallError as problem:
            if problem.status != HTTPStatus.CONFLICT:
                raise
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        self._grant(subject, f"system:serviceaccount:{namespace}:{name}", (), namespace, rules, cluster_rules)
        request = {"spec": {"expirationSeconds": int(valid_for.total_seconds())}}
        token = self.call("POST", f"{accounts}/{name}/token", request)["status"]["token"]
        return self._write_kubeconfig(name, token_user(token), namespace)

    def user_kubeconfig(
        self,
        name: str,
        *,
        groups: Sequence[str] = (),
        namespace: str = "default",
        rules: Sequence[PolicyRule] = (),
        cluster_rules: Sequence[PolicyRule] = (),
        valid_for: timedelta | None = None,
    ) -> Path:
        """Return a kubeconfig for a user with these permissions.

        The user has a client certificate if this process has the authority (a negative `valid_for` creates an expired
        one); on an existing cluster the administrator impersonates the user.
        """
        subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}
        self._grant(subject, name, groups, namespace, rules, cluster_rules)
        return self._write_kubeconfig(name, self._user(name, tuple(groups), valid_for), namespace)

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again, with the same port and data."""
        self.kill_apiserver()
        self.start_apiserver()

    def kill_apiserver(self) -> None:
        """Kill the API server with SIGKILL and wait for its end."""
        raise self._unsupported("killing the API server")

    def start_apiserver(self) -> None:
        """Start the API server after `kill_apiserver` and wait until it is ready.

        The controller manager and the scheduler restart with it.
        """
        raise self._unsupported("starting the API server")

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: one JSON event per line."""
        raise self._unsupported("the audit log")

    def audit_events(
        self,
        *,
        stage: Stage | None = "ResponseComplete",
        verbs: Sequence[str] | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        user: str | None = None,
        user_agent: str | None = None,
    ) -> Iterator[AuditEvent]:
        """Yield the requests to the API server; see `controlplane.audit.read_audit_log` for the filters."""
        return read_audit_log(
            self.audit_log,
            stage=stage,
            verbs=verbs,
            resource=resource,
            namespace=namespace,
            user=user,
            user_agent=user_agent,
        )

    def add_node(
        self,
        name: str,
        *,
        cpu: str = "64",
        memory: str = "256Gi",
        pods: int = 10_000,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Add a simulated node that is Ready, so that the scheduler can bind Pods."""
        raise self._unsupported("adding nodes")

    def _user(self, name: str, groups: tuple[str, ...], valid_for: timedelta | None) -> dict[str, Any]:
        raise NotImplementedError

    def _cluster(self) -> dict[str, Any]:
        raise NotImplementedError

    def _unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what} needs a control plane that was started by ControlPlane.start, not {self.kubeconfig}."
        )

    def _write_kubeconfig(self, name: str, user: dict[str, Any], namespace: str) -> Path:
        path = self.directory / f"{next(self._numbers)}-{name.replace(':', '-').replace('/', '-')}.kubeconfig"
        return write_kubeconfig(path, cluster=self._cluster(), user=user, name=name, namespace=namespace)

    def _grant(
        self,
        subject: dict[str, str],
        user: str,
        groups: Sequence[str],
        namespace: str,
        rules: Sequence[PolicyRule],
        cluster_rules: Sequence[PolicyRule],
    ) -> None:
        for kind, scope, granted in (
            ("ClusterRole", "", cluster_rules),
            ("Role", f"/namespaces/{namespace}", rules),
        ):
            if not granted:
                continue
            plural = f"{kind.lower()}s"
            prefix = {"metadata": {"generateName": "steersman-test-"}}
            role = self.call("POST", f"{_RBAC}{scope}/{plural}", {**prefix, "rules": list(granted)})
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role["metadata"]["name"]}
            binding = {**prefix, "subjects": [subject], "roleRef": ref}
            self.call("POST", f"{_RBAC}{scope}/{kind.lower()}bindings", binding)
            self.wait_in_force(user, groups, namespace, granted[-1])

    def wait_in_force(self, user: str, groups: Sequence[str], namespace: str, rule: PolicyRule) -> None:
        """Wait until a user has a permission: the authorizer reads new rules with a delay."""
        spec: dict[str, Any] = {"user": user, "groups": list(groups)}
        if "resources" in rule:
            resource, _, subresource = rule["resources"][-1].partition("/")
            spec["resourceAttributes"] = {
                "namespace": namespace,
                "group": rule.get("apiGroups", ("",))[-1],
                "resource": resource,
                "subresource": subresource,
                "verb": rule.get("verbs", ("get",))[-1],
                "name": rule.get("resourceNames", ("",))[-1],
            }
        else:
            spec["nonResourceAttributes"] = {
                "path": rule.get("nonResourceURLs", ("/",))[-1].rstrip("*"),
                "verb": rule.get("verbs", ("get",))[-1],
            }
        deadline = time.monotonic() + 10
        review = {"spec": spec}
        while not self.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]:
            if time.monotonic() > deadline:
                raise CallError(f"granting {json.dumps(rule)} to {user}", 0, b"the rule is not in force after 10 s")
            time.sleep(0.02)


class ExistingCluster(Cluster):
    """The cluster of a kubeconfig, which this process neither starts nor stops."""

    def __init__(self, kubeconfig: Path) -> None:
        found = shutil.which("kubectl")
        directory = Path(tempfile.mkdtemp(prefix="steersman-cluster-"))
        super().__init__(kubeconfig=kubeconfig, directory=directory, kubectl=Path(found) if found else None)
        try:
            self.call("GET", "/version")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, and delete the files. The cluster itself stays."""
        self._hang_up()
        shutil.rmtree(self.directory, ignore_errors=True)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send one request as the administrator, and return the response. Raises `CallError`."""
        verb = {"GET": "get", "POST": "create", "DELETE": "delete"}[method]
        try:
            if body is None:
                return dict(json.loads(self.kubectl(verb, "--raw", path)))
            return dict(json.loads(self.kubectl(verb, "--raw", path, "-f", "-", input=json.dumps(body))))
        except KubectlError as error:
            raise CallError(f"{method} {path}", error.returncode, error.stderr.encode()) from error

    def _view(self) -> dict[str, Any]:
        return dict(json.loads(self.kubectl("config", "view", "--minify", "--raw", "--flatten", "-o", "json")))

    def _cluster(self) -> dict[str, Any]:
        return dict(self._view()["clusters"][0]["cluster"])

    def _user(self, name: str, groups: tuple[str, ...], valid_for: timedelta | None) -> dict[str, Any]:
        if valid_for is not None:
            raise self._unsupported("a certificate with a lifetime of one's own")
        return {**self._view()["users"][0]["user"], "as": name, "as-groups": list(groups)}
