"""`steersman run`: flags to settings, an operator from a module, one replica of it in this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from steersman.cli.target import Target

__all__ = ["run"]

_CLUSTER = "Cluster"
_SCOPE = "Where to work"
_LEASE = "Leader election"
_SERVERS = "Probes and metrics"
_WEBHOOKS = "Webhooks"
_LOGS = "Logs and traces"


def run(
    target: Target,
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            help="Kubeconfig file; $KUBECONFIG, ~/.kube/config or the Pod's ServiceAccount by default.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.", rich_help_panel=_CLUSTER)] = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="URL of an API server without credentials of ours, such as `kubectl proxy` at http://127.0.0.1:8001.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    as_: Annotated[
        str | None, typer.Option("--as", help="User to impersonate.", metavar="USER", rich_help_panel=_CLUSTER)
    ] = None,
    as_group: Annotated[
        list[str] | None,
        typer.Option("--as-group", help="Group to impersonate; may be repeated.", rich_help_panel=_CLUSTER),
    ] = None,
    dry_run: Annotated[
        bool | None,
        typer.Option(
            "--dry-run", help="Let the API server check every write, and keep none.", rich_help_panel=_CLUSTER
        ),
    ] = None,
    install_crds: Annotated[
        bool | None,
        typer.Option(
            "--install-crds",
            help="Install the operator's CustomResourceDefinitions first, and wait until they are served.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Namespace to work in; may be repeated.", rich_help_panel=_SCOPE),
    ] = None,
    namespace_selector: Annotated[
        str | None,
        typer.Option(help="Work in the namespaces whose labels match, at any time.", rich_help_panel=_SCOPE),
    ] = None,
    all_namespaces: Annotated[
        bool,
        typer.Option("--all-namespaces", "-A", help="Work in all namespaces (the default).", rich_help_panel=_SCOPE),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Workers per controller, instead of what it declares.", rich_help_panel=_SCOPE)
    ] = None,
    leader_elect: Annotated[
        bool | None,
        typer.Option(
            "--leader-elect/--no-leader-elect",
            help="Let only one replica work at a time. On by default.",
            rich_help_panel=_LEASE,
        ),
    ] = None,
    lease_name: Annotated[
        str | None, typer.Option(help="Name of the lease; the operator's by default.", rich_help_panel=_LEASE)
    ] = None,
    lease_namespace: Annotated[
        str | None, typer.Option(help="Namespace of the lease; this Pod's, or the context's.", rich_help_panel=_LEASE)
    ] = None,
    lease_duration: Annotated[
        str | None, typer.Option(help="How long a lease lasts, e.g. 15s.", rich_help_panel=_LEASE)
    ] = None,
    renew_deadline: Annotated[
        str | None, typer.Option(help="How long a leader tries to renew before it stops.", rich_help_panel=_LEASE)
    ] = None,
    retry_period: Annotated[str | None, typer.Option(help="How often it tries.", rich_help_panel=_LEASE)] = None,
    warm_standby: Annotated[
        bool | None,
        typer.Option(
            "--warm-standby/--no-warm-standby",
            help="Let standbys keep their caches in step. On by default.",
            rich_help_panel=_LEASE,
        ),
    ] = None,
    shutdown_grace: Annotated[
        str | None,
        typer.Option(help="How long running reconciles may take at shutdown, e.g. 30s.", rich_help_panel=_LEASE),
    ] = None,
    metrics_bind_address: Annotated[
        str | None,
        typer.Option(
            help="Where /metrics is served; 127.0.0.1:8080 by default, 0 for nowhere.", rich_help_panel=_SERVERS
        ),
    ] = None,
    metrics_secure: Annotated[
        bool | None,
        typer.Option(
            "--metrics-secure/--no-metrics-secure",
            help="Serve metrics over TLS, to those whom the cluster allows to get /metrics.",
            rich_help_panel=_SERVERS,
        ),
    ] = None,
    metrics_cert_dir: Annotated[
        str | None,
        typer.Option(help="Directory with tls.crt and tls.key; self-signed without it.", rich_help_panel=_SERVERS),
    ] = None,
    health_probe_bind_address: Annotated[
        str | None,
        typer.Option(
            help="Where /healthz and /readyz are served; 127.0.0.1:8081 by default, 0 for nowhere.",
            rich_help_panel=_SERVERS,
        ),
    ] = None,
    webhook_bind_address: Annotated[
        str | None,
        typer.Option(
            help="Where webhooks are served; 127.0.0.1:9443 by default, 0 for nowhere.", rich_help_panel=_WEBHOOKS
        ),
    ] = None,
    webhook_mode: Annotated[
        Literal["local", "cluster"] | None,
        typer.Option(
            help="local: register this run with the API server, and take that back at its end. cluster: the manifests "
            "have done so. In a Pod it is cluster, elsewhere local.",
            rich_help_panel=_WEBHOOKS,
        ),
    ] = None,
    webhook_url: Annotated[
        str | None,
        typer.Option(help="URL under which the API server reaches a local run.", rich_help_panel=_WEBHOOKS),
    ] = None,
    webhook_cert_dir: Annotated[
        str | None,
        typer.Option(
            help="Directory with tls.crt and tls.key, read again when they change.", rich_help_panel=_WEBHOOKS
        ),
    ] = None,
    webhook_client_ca: Annotated[
        str | None,
        typer.Option(
            help="File with the CA of callers; whoever shows no certificate of it gets no answer.",
            rich_help_panel=_WEBHOOKS,
        ),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(help="What to log; info by default.", rich_help_panel=_LOGS),
    ] = None,
    log_format: Annotated[
        Literal["auto", "json", "console"] | None,
        typer.Option(help="auto: colours on a terminal, JSON elsewhere.", rich_help_panel=_LOGS),
    ] = None,
    tracing: Annotated[
        bool | None,
        typer.Option(
            "--tracing/--no-tracing",
            help="Send OpenTelemetry spans, as the OTEL_* variables say.",
            rich_help_panel=_LOGS,
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Log level debug, and tracebacks of errors.", rich_help_panel=_LOGS)
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="Settings file, TOML or YAML. Flags and STEERSMAN_* variables beat it.")
    ] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Restart the operator when its files change.")] = False,
) -> None:
    """Run an operator against a cluster, in this process.

    Stops cleanly on Ctrl-C and SIGTERM: running reconciles finish, the lease is released. Ctrl-C twice aborts.
    Every option is also a variable (`STEERSMAN_WORKERS=8`) and a key of the settings file (`workers = 8`).

    Examples:

        steersman run helloapp:operator

        steersman run helloapp:operator --reload -n dev --log-level debug

        steersman run helloapp:operator --context staging --dry-run --no-leader-elect

        steersman run helloapp:operator --namespace-selector team=payments
    """
    if reload:
        from steersman.cli.reload import supervise

        raise SystemExit(supervise(sys.argv[1:], Path.cwd()))
    from steersman.client.config.incluster import is_in_cluster

    flags: dict[str, Any] = {
        "kubeconfig": kubeconfig,
        "context": context,
        "server": server,
        "impersonate_user": as_,
        "impersonate_groups": tuple(as_group) if as_group else None,
        "dry_run": dry_run,
        "install_crds": install_crds,
        "namespaces": tuple(namespace) if namespace else None,
        "namespace_selector": namespace_selector,
        "workers": workers,
        "leader_elect": leader_elect,
        "lease_name": lease_name,
        "lease_namespace": lease_namespace,
        "lease_duration": lease_duration,
        "renew_deadline": renew_deadline,
        "retry_period": retry_period,
        "warm_standby": warm_standby,
        "shutdown_grace": shutdown_grace,
        "metrics_bind_address": metrics_bind_address,
        "metrics_secure": metrics_secure,
        "metrics_cert_dir": metrics_cert_dir,
        "health_probe_bind_address": health_probe_bind_address,
        "webhook_bind_address": webhook_bind_address,
        "webhook_mode": webhook_mode or ("cluster" if is_in_cluster(os.environ) else None),
        "webhook_url": webhook_url,
        "webhook_cert_dir": webhook_cert_dir,
        "webhook_client_ca": webhook_client_ca,
        "log_level": "debug" if debug else log_level,
        "log_format": log_format,
        "tracing": tracing,
    }
    if all_namespaces:
        if namespace or namespace_selector:
            raise typer.BadParameter("--all-namespaces excludes --namespace and --namespace-selector")
        flags |= {"namespaces": (), "namespace_selector": ""}
    from steersman.cli.errors import explain
    from steersman.cli.process import run_replica
    from steersman.operator.settings import load_settings

    try:
        code = run_replica(target, load_settings(flags, os.environ, config))
    except Exception as problem:  # noqa: BLE001 - becomes a message
        code = explain(problem, debug=debug)
    raise SystemExit(code)
