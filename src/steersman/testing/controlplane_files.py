"""The files of one control plane: its directory, its certificates and keys, its kubeconfigs, its audit policy.

The directory is locked as long as its owner lives; the next control plane on the machine sweeps away what
owners left behind that were killed. Nothing here starts a process.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from steersman.pki import Authority, write_private
from steersman.testing.controlplane_audit import AuditPolicy
from steersman.testing.controlplane_commands import Layout
from steersman.testing.controlplane_kubeconfig import certificate_user, cluster_at, write_kubeconfig
from steersman.testing.controlplane_pki import authority as new_authority
from steersman.testing.controlplane_pki import signing_keys, write_pair

_PREFIX = "steersman-controlplane-"

_IDENTITIES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("admin", "admin", ("system:masters",)),
    ("controller-manager", "system:kube-controller-manager", ("system:masters",)),
    ("scheduler", "system:kube-scheduler", ()),
)
"""File name, user and groups of those who come with the control plane."""


def write_files(at: Layout, authority: Authority, audit: AuditPolicy) -> None:
    """Write all that the components read at start."""
    pki = at.pki("")
    for directory in (pki, at.log("").parent):
        directory.mkdir(parents=True, exist_ok=True)
    write_pair(authority.pair, pki, "ca")
    hosts = ("127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default.svc", "10.0.0.1")
    write_pair(authority.serving("kube-apiserver", hosts, client=True), pki, "apiserver")
    # An authority of its own: whoever holds a client certificate of the cluster must not get into its store.
    etcd_authority = new_authority("steersman-test-etcd")
    write_pair(etcd_authority.pair, pki, "etcd-ca")
    write_pair(etcd_authority.serving("etcd", ("127.0.0.1",), client=True), pki, "etcd")
    private, public = signing_keys()
    write_private(at.pki("service-account.key"), private)
    write_private(at.pki("service-account.pub"), public)
    cluster = cluster_at(at.server, authority.cert_pem)
    for name, user, groups in _IDENTITIES:
        pair = authority.client(user, groups=groups)
        write_pair(pair, pki, name)
        write_kubeconfig(at.kubeconfig(name), cluster=cluster, user=certificate_user(pair), name=name)
    write_private(at.audit_policy, audit.text().encode())


def temporary_directory() -> tuple[Path, IO[bytes]]:
    """Make a directory that is marked as in use, after sweeping away those whose users were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), (left / ".alive").open("rb") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    mark = (directory / ".locking").open("wb")
    fcntl.flock(mark, fcntl.LOCK_EX)
    # Under its name only once locked, or a sweep might find it in between.
    (directory / ".locking").rename(directory / ".alive")
    return directory, mark
