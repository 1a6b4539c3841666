"""The files of one control plane: its directory, certificates, keys, kubeconfigs and audit policy.

The directory is locked while its owner lives. A new control plane deletes directories of killed owners.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from steersman.pki import Authority, write_private
from steersman.testing.controlplane.audit import AuditPolicy
from steersman.testing.controlplane.commands import Layout
from steersman.testing.controlplane.pki import authority as new_authority
from steersman.testing.controlplane.pki import signing_keys, write_pair
from steersman.testing.kubeconfigs import certificate_user, cluster_at, write_kubeconfig

_PREFIX = "steersman-controlplane-"
_HOSTS = ("127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default.svc", "10.0.0.1")

Identity = tuple[str, str, tuple[str, ...]]
"""File name, user and groups of a client."""

_IDENTITIES: tuple[Identity, ...] = (
    ("admin", "admin", ("system:masters",)),
    ("controller-manager", "system:kube-controller-manager", ("system:masters",)),
    ("scheduler", "system:kube-scheduler", ()),
)


def write_files(
    at: Layout,
    authority: Authority,
    audit: AuditPolicy,
    *,
    hosts: Sequence[str] = (),
    identities: Sequence[Identity] = (),
) -> None:
    """Write all files that the components read at their start.

    Args:
        at: The directory and the ports.
        authority: The authority of the cluster.
        audit: The audit policy.
        hosts: More addresses and names of the API server.
        identities: More clients, each with a certificate and a kubeconfig.
    """
    pki = at.pki("")
    for directory in (pki, at.log("").parent):
        directory.mkdir(parents=True, exist_ok=True)
    write_pair(authority.pair, pki, "ca")
    write_pair(authority.serving("kube-apiserver", (*_HOSTS, *hosts), client=True), pki, "apiserver")
    # A separate authority: a client certificate of the cluster must not give access to etcd.
    etcd_authority = new_authority("steersman-test-etcd")
    write_pair(etcd_authority.pair, pki, "etcd-ca")
    write_pair(etcd_authority.serving("etcd", ("127.0.0.1",), client=True), pki, "etcd")
    private, public = signing_keys()
    write_private(at.pki("service-account.key"), private)
    write_private(at.pki("service-account.pub"), public)
    cluster = cluster_at(at.server, authority.cert_pem)
    for name, user, groups in (*_IDENTITIES, *identities):
        pair = authority.client(user, groups=groups)
        write_pair(pair, pki, name)
        write_kubeconfig(at.kubeconfig(name), cluster=cluster, user=certificate_user(pair), name=name)
    write_private(at.audit_policy, audit.text().encode())


def temporary_directory() -> tuple[Path, IO[bytes]]:
    """Create a locked directory, after the deletion of directories without an owner."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), (left / ".alive").open("rb") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    mark = (directory / ".locking").open("wb")
    fcntl.flock(mark, fcntl.LOCK_EX)
    # Rename it only after it is locked, or a concurrent cleanup might delete it.
    (directory / ".locking").rename(directory / ".alive")
    return directory, mark
