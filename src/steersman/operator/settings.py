"""How a process runs an operator: flags over environment (`STEERSMAN_*`) over a file (TOML or YAML) over defaults.

One frozen value holds all of it, so that the run loop reads no environment and no file. Every refusal names where
the value came from and what would be accepted. What the operator *is* (kinds, controllers) is never a setting.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from steersman.operator.leaderelection.state import LeaseTiming

__all__ = ["PREFIX", "Address", "Settings", "SettingsError", "load_settings", "parse_address", "parse_duration"]

PREFIX = "STEERSMAN_"


class SettingsError(ValueError):
    """A setting that cannot be used; says where it came from, what is wrong and what would be right."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that may differ between two places where the same operator runs. Durations are in seconds."""

    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    """The URL of a plain API endpoint, such as `http://127.0.0.1:8001` behind `kubectl proxy`."""
    impersonate_user: str | None = None
    impersonate_groups: tuple[str, ...] = ()

    namespaces: tuple[str, ...] = ()
    """The namespaces to work in; all of them when empty."""
    namespace_selector: str | None = None
    """A label selector; the operator works in the namespaces that match it at any time."""

    install_crds: bool = False
    """Install the operator's CustomResourceDefinitions before anything else starts; `steersman run` makes them."""
    workers: int | None = None
    """Workers per controller, over what each controller declares."""
    dry_run: bool = False
    """Send every write with `dryRun=All`: the API server checks it and keeps nothing."""
    sync_timeout: float = 120.0
    """How long the first sync of the caches may take before that is reported as unready, again and again."""
    shutdown_grace: float = 30.0
    """How long running reconciles may take to finish at shutdown before they are cancelled."""

    leader_elect: bool = True
    lease_name: str | None = None
    """The operator's name by default. Two operators with one lease name in one namespace never run at the same time."""
    lease_namespace: str | None = None
    """The Pod's namespace in a cluster, the context's namespace elsewhere."""
    pod_uid: str = ""
    """The UID of the Pod that this process runs in: after a restart of its container the process takes its own lease
    at once. The manifests set it by the downward API."""
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    warm_standby: bool = True
    """Whether standbys keep their caches in step, to take over without a sync."""

    metrics_bind_address: str = "127.0.0.1:8080"
    """`host:port`, `:port` for all interfaces, `0` for none."""
    metrics_secure: bool = False
    """Serve metrics over TLS, and only to those whom the API server lets `get` the path `/metrics`."""
    metrics_cert_dir: str | None = None
    """Directory with `tls.crt` and `tls.key`; a self-signed certificate is made without it."""
    health_probe_bind_address: str = "127.0.0.1:8081"
    """`host:port`, `:port` for all interfaces (in a cluster the kubelet must reach it), `0` for none."""
    webhook_bind_address: str = "127.0.0.1:9443"
    """`host:port`, `:port` for all interfaces (in a cluster the API server must reach it), `0` for none."""
    webhook_mode: Literal["local", "cluster"] = "local"
    """Who makes the API server ask us: "local" registers this run under a URL and takes that back at its end; in a
    "cluster" the manifests do, and the certificate is kept in a Secret."""
    webhook_url: str | None = None
    """The URL under which the API server reaches a local run; `https://127.0.0.1:<port>` by default."""
    webhook_cert_dir: str | None = None
    """Directory with `tls.crt` and `tls.key`, as cert-manager's Secrets are mounted; read again when they change."""
    webhook_client_ca: str | None = None
    """File with the certificates (PEM) of those who sign for callers; whoever shows none of theirs gets no answer."""
    webhook_cert_life: float = 90 * 24 * 3600.0
    """How long a certificate that the replicas make themselves is valid; it is renewed at two thirds of that."""
    webhook_cert_settle: float = 120.0
    """How long API servers and replicas may take to learn of a new authority before it signs."""
    liveness_stall: float = 10.0
    """/healthz fails when the event loop has not moved for so long."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    tracing: bool = False
    """Send OpenTelemetry spans, as the `OTEL_*` variables say (extra `otel`)."""
    uvloop: bool = True
    """Use uvloop where it is installed."""
    gc_tuning: bool = True
    """Adjust malloc and the garbage collector of this process to a large cache (`ProcessMemory`)."""

    @property
    def lease_timing(self) -> LeaseTiming:
        """The election's times."""
        return LeaseTiming(self.lease_duration, self.renew_deadline, self.retry_period)

    def check(self) -> None:
        """Raise `SettingsError` for values that contradict each other."""
        if self.namespaces and self.namespace_selector:
            raise SettingsError("namespaces and namespace-selector: give one of them, not both")
        if self.server and (self.kubeconfig or self.context):
            raise SettingsError("server: give a plain server URL or a kubeconfig and context, not both")
        if self.impersonate_groups and not self.impersonate_user:
            raise SettingsError("impersonate-groups: groups can only be impersonated together with a user (--as)")
        if self.workers is not None and self.workers < 1:
            raise SettingsError(f"workers={self.workers}: at least 1")
        for name in ("sync_timeout", "shutdown_grace", "liveness_stall", "webhook_cert_life", "webhook_cert_settle"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{_flag(name)}={getattr(self, name):g}: seconds, not negative")
        if self.pod_uid and not re.fullmatch(r"[0-9a-f-]{32,36}", self.pod_uid):
            raise SettingsError(
                f"pod-uid={self.pod_uid!r}: the UID of this Pod; set it by the downward API (metadata.uid), never as a"
                " constant"
            )
        self._check_addresses()
        try:
            _ = self.lease_timing
        except ValueError as problem:
            raise SettingsError(f"leader election: {problem}") from None

    def _check_addresses(self) -> None:
        if self.webhook_url is not None and not re.fullmatch(r"https://[^/?#\s]+/?", self.webhook_url):
            raise SettingsError(f"webhook-url: {self.webhook_url!r}: write https://host:port, without a path")
        for name in ("metrics_bind_address", "health_probe_bind_address", "webhook_bind_address"):
            try:
                parse_address(getattr(self, name))
            except ValueError as problem:
                raise SettingsError(f"{_flag(name)}: {problem}") from None


class Address(msgspec.Struct, frozen=True):
    """Where a server listens; port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address | None:
    """`host:port`, `:port` (all interfaces), `[::1]:port`; `None` for `0` and the empty string: no server."""
    if text in ("", "0"):
        return None
    match = re.fullmatch(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]]*)):(?P<port>\d{1,5})", text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(
            f"{text!r} is not an address: write 127.0.0.1:8080, :8080 for all interfaces, or 0 for no server"
        )
    return Address(match["v6"] or match["host"] or "", int(match["port"]))


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds of `15`, `2.5`, `15s`, `1m30s`, `250ms` or `1h`; raises `ValueError` for other words."""
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", text):
        return sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text))
    raise ValueError(f"{text!r} is not a duration: write seconds (15), or 15s, 1m30s, 250ms")


_FIELDS = {f.name: f for f in msgspec.structs.fields(Settings)}


def load_settings(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Join the sources, strongest first: flags, environment, file, defaults.

    `flags` has field names; a value of `None` means not given. Environment variables are `STEERSMAN_` and the
    field's name in upper case, lists separated by commas. The file's keys are the field names, with `-` or `_`.
    Raises `SettingsError` naming source and key: unknown keys of the file and of the environment are refused, so
    that a typing error is not silently ignored.
    """
    env = dict(environ or {})
    path = file or (Path(env[PREFIX + "CONFIG"]) if env.get(PREFIX + "CONFIG") else None)
    values: dict[str, Any] = {}
    if path is not None:
        values.update(_from_file(path))
    values.update(_from_environment(env))
    for name, value in (flags or {}).items():
        if value is not None:
            values[name] = _read(name, value, _flag(name))
    # A choice of namespaces replaces the other kind of choice from a weaker source.
    given = {name for name, value in (flags or {}).items() if value is not None}
    for stronger, weaker in (("namespaces", "namespace_selector"), ("namespace_selector", "namespaces")):
        if stronger in given and weaker not in given:
            values.pop(weaker, None)
    settings = Settings(**values)
    settings.check()
    return settings


_NOT_SETTINGS = {"COMPILE", "CONFIG", "CONTROLPLANE", "REQUIRE_CONTROLPLANE", "ENVTEST_INDEX"}
"""Variables with our prefix that belong to other parts of Steersman."""


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in env.items():
        if not variable.startswith(PREFIX) or variable.removeprefix(PREFIX) in _NOT_SETTINGS:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in _FIELDS:
            close = difflib.get_close_matches(name, _FIELDS, n=1)
            if close:  # anything else with our prefix may belong to the operator or to a tool
                raise SettingsError(
                    f"environment {variable}: there is no such setting; did you mean {PREFIX}{close[0].upper()}?"
                )
            continue
        values[name] = _read(name, text, f"environment {variable}")
    return values


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise SettingsError(f"settings file {path}: {reason}") from None
    data = _parse(path, text)
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise SettingsError(f"settings file {path}: expected keys and values, found {type(data).__name__}")
    values: dict[str, Any] = {}
    for key, value in cast("Mapping[Any, Any]", data).items():
        name = str(key).replace("-", "_")
        if name not in _FIELDS:
            close = difflib.get_close_matches(name, _FIELDS, n=1)
            hint = f"; did you mean {close[0].replace('_', '-')}?" if close else ""
            raise SettingsError(f"settings file {path}: there is no setting {key!r}{hint}")
        values[name] = _read(name, value, f"settings file {path}: {key}")
    return values


def _parse(path: Path, text: str) -> Any:
    if path.suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise SettingsError(f"settings file {path}: {problem}") from None
    if path.suffix in (".yaml", ".yml", ".json"):
        import yaml

        from steersman import documents

        try:
            return documents.load(text)
        except yaml.YAMLError as problem:
            raise SettingsError(f"settings file {path}: {' '.join(str(problem).split())}") from None
    raise SettingsError(f"settings file {path}: expected a name that ends in .toml, .yaml or .json")


def _read(name: str, value: Any, source: str) -> Any:
    """One value of any source as its field's type."""
    if name not in _FIELDS:
        raise SettingsError(f"{source}: there is no such setting")
    kind = _FIELDS[name].type
    try:
        if kind is float and isinstance(value, str):
            return parse_duration(value)
        if kind == tuple[str, ...] and isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if kind is bool and isinstance(value, str):
            return _parse_bool(value)
        return msgspec.convert(value, kind, strict=not isinstance(value, str))
    except (msgspec.ValidationError, ValueError) as problem:
        what = re.sub(r" - at `[^`]*`", "", str(problem))
        raise SettingsError(f"{source}={value!r}: {what}") from None


def _parse_bool(text: str) -> bool:
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError("expected true or false")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
