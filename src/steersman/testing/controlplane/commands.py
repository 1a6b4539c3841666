"""The command lines of the components, as a pure function of paths and ports.

They prefer speed to durability (etcd does not sync, leader election is off). RBAC, ServiceAccount admission, watch
cache, priority and fairness, and TLS with client certificates are on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ports:
    """The loopback ports of one control plane."""

    apiserver: int
    etcd: int
    etcd_peer: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True)
class Layout:
    """The directory and the ports of one control plane."""

    directory: Path
    ports: Ports

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports.apiserver}"

    @property
    def audit_log(self) -> Path:
        """The audit log file."""
        return self.directory / "audit.log"

    @property
    def audit_policy(self) -> Path:
        """The file of the audit policy."""
        return self.directory / "audit-policy.yaml"

    def pki(self, name: str) -> Path:
        """Return the path of a certificate or key."""
        return self.directory / "pki" / name

    def kubeconfig(self, name: str) -> Path:
        """Return the path of the kubeconfig of a component or user."""
        return self.directory / f"{name}.kubeconfig"

    def log(self, name: str) -> Path:
        """Return the path of the log of a component."""
        return self.directory / "logs" / f"{name}.log"


def etcd(binary: Path, at: Layout) -> list[str]:
    """Return the command line of etcd: one member, TLS with a separate authority for the API server alone."""
    client = f"https://127.0.0.1:{at.ports.etcd}"
    peer = f"https://127.0.0.1:{at.ports.etcd_peer}"
    cert, key, ca = at.pki("etcd.crt"), at.pki("etcd.key"), at.pki("etcd-ca.crt")
    return [
        str(binary),
        "--name=test",
        f"--data-dir={at.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
        f"--cert-file={cert}",
        f"--key-file={key}",
        f"--trusted-ca-file={ca}",
        "--client-cert-auth",
        f"--peer-cert-file={cert}",
        f"--peer-key-file={key}",
        f"--peer-trusted-ca-file={ca}",
        "--peer-client-cert-auth",
        "--unsafe-no-fsync",
        # A single member needs no long election timeout.
        "--heartbeat-interval=20",
        "--election-timeout=200",
        f"--quota-backend-bytes={8 << 30}",
        "--log-level=warn",
    ]


def apiserver(binary: Path, at: Layout, *, service_accounts: bool, extra: Sequence[str]) -> list[str]:
    """Return the command line of kube-apiserver.

    Without a controller manager there are no ServiceAccounts, so Pods need none.
    """
    return [
        str(binary),
        f"--etcd-servers=https://127.0.0.1:{at.ports.etcd}",
        f"--etcd-cafile={at.pki('etcd-ca.crt')}",
        f"--etcd-certfile={at.pki('etcd.crt')}",
        f"--etcd-keyfile={at.pki('etcd.key')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.ports.apiserver}",
        # Endpoints may not contain loopback addresses, and no Pod runs that would need them.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={at.pki('apiserver.crt')}",
        f"--tls-private-key-file={at.pki('apiserver.key')}",
        f"--client-ca-file={at.pki('ca.crt')}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={at.pki('service-account.pub')}",
        f"--service-account-signing-key-file={at.pki('service-account.key')}",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--allow-privileged=true",
        *([] if service_accounts else ["--disable-admission-plugins=ServiceAccount"]),
        f"--audit-policy-file={at.audit_policy}",
        f"--audit-log-path={at.audit_log}",
        "--audit-log-mode=blocking",
        # In megabytes; beyond that a rotation would move the log that tests read.
        "--audit-log-maxsize=65536",
        *extra,
    ]


def controller_manager(binary: Path, at: Layout, *, extra: Sequence[str]) -> list[str]:
    """Return the command line of kube-controller-manager with one administrator token, so that it starts fast."""
    return [
        str(binary),
        f"--kubeconfig={at.kubeconfig('controller-manager')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.ports.controller_manager}",
        f"--tls-cert-file={at.pki('apiserver.crt')}",
        f"--tls-private-key-file={at.pki('apiserver.key')}",
        f"--root-ca-file={at.pki('ca.crt')}",
        f"--service-account-private-key-file={at.pki('service-account.key')}",
        f"--cluster-signing-cert-file={at.pki('ca.crt')}",
        f"--cluster-signing-key-file={at.pki('ca.key')}",
        "--leader-elect=false",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        "--horizontal-pod-autoscaler-sync-period=2s",
        "--resource-quota-sync-period=10s",
        "--node-monitor-grace-period=60s",
        *extra,
    ]


def scheduler(binary: Path, at: Layout, *, extra: Sequence[str]) -> list[str]:
    """Return the command line of kube-scheduler with its default profile."""
    return [
        str(binary),
        f"--kubeconfig={at.kubeconfig('scheduler')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.ports.scheduler}",
        f"--tls-cert-file={at.pki('apiserver.crt')}",
        f"--tls-private-key-file={at.pki('apiserver.key')}",
        "--leader-elect=false",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        *extra,
    ]
