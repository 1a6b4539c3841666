"""`Settings`: the declaration of every setting, and the rules between them.

A new setting is one field here. What an operator is (its kinds and controllers) is never a setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from steersman.operator.leaderelection.state import LeaseTiming
from steersman.operator.settings.declaration import Seconds, Setting, SettingsError, declared
from steersman.operator.settings.values import parse_address

__all__ = ["SETTINGS", "Settings"]

_POD_UID: Final = re.compile(r"[0-9a-f-]{32,36}")
_WEBHOOK_URL: Final = re.compile(r"https://[^/?#\s]+/?")
_NOT_NEGATIVE: Final = ("sync_timeout", "shutdown_grace", "liveness_stall", "webhook_cert_life", "webhook_cert_settle")
_ADDRESSES: Final = ("metrics_bind_address", "health_probe_bind_address", "webhook_bind_address")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one process. Durations are in seconds."""

    kubeconfig: Annotated[
        str | None,
        Setting(
            "Kubeconfig file.", "Cluster", default_help="$KUBECONFIG, ~/.kube/config or the ServiceAccount of the Pod"
        ),
    ] = None
    context: Annotated[
        str | None, Setting("Context of the kubeconfig.", "Cluster", default_help="the current context")
    ] = None
    server: Annotated[
        str | None,
        Setting("URL of an API server that needs no credentials, such as that of `kubectl proxy`.", "Cluster"),
    ] = None
    impersonate_user: Annotated[
        str | None, Setting("User to impersonate.", "Cluster", option="--as", metavar="USER")
    ] = None
    impersonate_groups: Annotated[
        tuple[str, ...], Setting("Group to impersonate.", "Cluster", option="--as-group", metavar="GROUP")
    ] = ()
    dry_run: Annotated[
        bool, Setting("Send every write as a dry run: the API server checks it and does not store it.", "Cluster")
    ] = False
    install_crds: Annotated[
        bool,
        Setting("Install the operator's CustomResourceDefinitions first, and wait until they are served.", "Cluster"),
    ] = False

    namespaces: Annotated[
        tuple[str, ...],
        Setting("Namespace to work in.", "Namespaces", option="--namespace", short="-n", default_help="all namespaces"),
    ] = ()
    namespace_selector: Annotated[
        str | None, Setting("Label selector: work in the namespaces that match it at any time.", "Namespaces")
    ] = None

    workers: Annotated[
        int | None,
        Setting("Workers of each controller.", "Controllers", default_help="what the controller declares"),
    ] = None
    sync_timeout: Annotated[
        Seconds, Setting("Time after which caches that have not synced are reported, again and again.", "Controllers")
    ] = 120.0
    shutdown_grace: Annotated[Seconds, Setting("Time for running reconciles to finish at shutdown.", "Controllers")] = (
        30.0
    )

    leader_elect: Annotated[bool, Setting("Let only one replica work at a time.", "Leader election")] = True
    lease_name: Annotated[
        str | None,
        Setting(
            "Name of the Lease. Operators with one Lease never run at the same time.",
            "Leader election",
            default_help="the name of the operator",
        ),
    ] = None
    lease_namespace: Annotated[
        str | None,
        Setting(
            "Namespace of the Lease.", "Leader election", default_help="that of the Pod, or of the kubeconfig context"
        ),
    ] = None
    lease_duration: Annotated[Seconds, Setting("Time for which a Lease is valid.", "Leader election")] = 15.0
    renew_deadline: Annotated[
        Seconds, Setting("Time for which a leader tries to renew the Lease before it stops.", "Leader election")
    ] = 10.0
    retry_period: Annotated[Seconds, Setting("Time between two attempts.", "Leader election")] = 2.0
    warm_standby: Annotated[
        bool, Setting("Let standbys fill their caches, so that they take over without a list.", "Leader election")
    ] = True
    pod_uid: Annotated[
        str,
        Setting(
            "UID of the Pod that this process runs in, set by the downward API: a restarted container takes its own "
            "Lease immediately.",
            "Leader election",
        ),
    ] = ""

    metrics_bind_address: Annotated[
        str,
        Setting(
            "Address of `/metrics`: `host:port`, `:port` for all interfaces, `0` for no server.", "Probes and metrics"
        ),
    ] = "127.0.0.1:8080"
    metrics_secure: Annotated[
        bool,
        Setting(
            "Serve metrics over TLS, to clients that the API server allows to `get` `/metrics`.", "Probes and metrics"
        ),
    ] = False
    metrics_cert_dir: Annotated[
        str | None,
        Setting("Directory with `tls.crt` and `tls.key`.", "Probes and metrics", default_help="self-signed"),
    ] = None
    health_probe_bind_address: Annotated[
        str,
        Setting(
            "Address of `/healthz`, `/livez` and `/readyz`; in a cluster the kubelet must reach it.",
            "Probes and metrics",
        ),
    ] = "127.0.0.1:8081"
    liveness_stall: Annotated[
        Seconds, Setting("Time without progress of the event loop after which `/healthz` fails.", "Probes and metrics")
    ] = 10.0

    webhook_bind_address: Annotated[
        str, Setting("Address of the webhook server; in a cluster the API server must reach it.", "Webhooks")
    ] = "127.0.0.1:9443"
    webhook_mode: Annotated[
        Literal["local", "cluster"],
        Setting(
            "local: this run registers its webhooks and removes them at its end. cluster: the manifests register "
            "them, and the certificate is kept in a Secret.",
            "Webhooks",
            default_help="cluster in a Pod, else local",
        ),
    ] = "local"
    webhook_url: Annotated[
        str | None,
        Setting(
            "URL at which the API server reaches a local run.",
            "Webhooks",
            default_help="https://127.0.0.1 with the port of the server",
        ),
    ] = None
    webhook_cert_dir: Annotated[
        str | None,
        Setting("Directory with `tls.crt` and `tls.key`, which are read again when they change.", "Webhooks"),
    ] = None
    webhook_client_ca: Annotated[
        str | None,
        Setting("PEM file with the certificate authorities of callers; other callers are refused.", "Webhooks"),
    ] = None
    webhook_cert_life: Annotated[
        Seconds,
        Setting("Validity of a self-managed certificate; it is renewed after two thirds of it.", "Webhooks"),
    ] = 90 * 24 * 3600.0
    webhook_cert_settle: Annotated[
        Seconds,
        Setting(
            "Time for API servers and replicas to receive a new certificate authority before it signs.", "Webhooks"
        ),
    ] = 120.0

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Setting("Lowest level that is logged.", "Logs and traces")
    ] = "info"
    log_format: Annotated[
        Literal["auto", "json", "console"],
        Setting("Format of the log; auto is console on a terminal, else json.", "Logs and traces"),
    ] = "auto"
    tracing: Annotated[
        bool,
        Setting("Send OpenTelemetry spans, as the OTEL_* variables say (extra `otel`).", "Logs and traces"),
    ] = False

    uvloop: Annotated[bool, Setting("Use uvloop where it is installed.", "Process")] = True
    gc_tuning: Annotated[
        bool,
        Setting("Adjust the allocator and the garbage collector of the process to a large cache.", "Process"),
    ] = True

    @property
    def lease_timing(self) -> LeaseTiming:
        """The times of the leader election."""
        return LeaseTiming(self.lease_duration, self.renew_deadline, self.retry_period)

    def check(self) -> None:
        """Check the rules between settings.

        Raises:
            SettingsError: Values contradict each other, or one is out of range.
        """
        self._check_combinations()
        self._check_values()
        try:
            _ = self.lease_timing
        except ValueError as problem:
            raise SettingsError(f"leader election: {problem}") from None

    def _check_combinations(self) -> None:
        if self.namespaces and self.namespace_selector:
            raise _error("namespaces", f"it excludes {_option('namespace_selector')}: give one of them")
        if self.server and (self.kubeconfig or self.context):
            excluded = f"{_option('kubeconfig')} and {_option('context')}"
            raise _error("server", f"it excludes {excluded}: give a plain server URL or a kubeconfig")
        if self.impersonate_groups and not self.impersonate_user:
            user = _option("impersonate_user")
            raise _error("impersonate_groups", f"groups are impersonated together with a user: add {user}")

    def _check_values(self) -> None:
        values = msgspec.structs.asdict(self)
        if self.workers is not None and self.workers < 1:
            raise _error("workers", "at least 1", self.workers)
        for name in _NOT_NEGATIVE:
            if values[name] < 0:
                raise _error(name, "seconds, not negative", f"{values[name]:g}")
        if self.pod_uid and not _POD_UID.fullmatch(self.pod_uid):
            expected = "expected the UID of this Pod: set it by the downward API (metadata.uid), never as a constant"
            raise _error("pod_uid", expected, repr(self.pod_uid))
        if self.webhook_url is not None and not _WEBHOOK_URL.fullmatch(self.webhook_url):
            raise _error("webhook_url", "write https://host:port, without a path", repr(self.webhook_url))
        for name in _ADDRESSES:
            try:
                parse_address(values[name])
            except ValueError as problem:
                raise _error(name, str(problem)) from None


SETTINGS: Final[Mapping[str, Setting]] = declared(Settings)
"""The declaration of each setting, by the name of its field."""


def _option(name: str) -> str:
    return SETTINGS[name].option


def _error(name: str, problem: str, value: object = None) -> SettingsError:
    shown = "" if value is None else f"={value}"
    return SettingsError(f"{_option(name)}{shown}: {problem}")
