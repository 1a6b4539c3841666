"""The Pod Security Standards: the checks of each level, with the API server's texts.

A check is a pure function of the annotations and the spec of a Pod. It returns (reason, detail), or `None` for an
allowed Pod. Checks change with Kubernetes' versions, and a namespace may select those of an older version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from steersman_cluster.admission import pod_security_fields as fields
from steersman_cluster.admission.pod_security_fields import container_names, containers, counted, quoted
from steersman_cluster.json_access import get_object
from steersman_cluster.objects import Object

__all__ = ["BASELINE", "LATEST", "RESTRICTED", "violations"]

BASELINE, RESTRICTED = "baseline", "restricted"
LATEST = 36
"""The newest minor version that has checks of its own, or newer."""

Finding: TypeAlias = "tuple[str, str] | None"
Check: TypeAlias = Callable[[Mapping[str, str], Object], Finding]

_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip
_VOLUMES = frozenset(
    (
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
        "secret",
    )
)  # fmt: skip
_SYSCTLS = ("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies")
_SYSCTLS_0 = frozenset((*_SYSCTLS, "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start"))
_SYSCTLS_27 = _SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}" for name in ("fin_timeout", "keepalive_time", "keepalive_intvl", "keepalive_probes")
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SELINUX = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES = ("RuntimeDefault", "Localhost")


def violations(level: str, minor: int, annotations: Mapping[str, str], spec: Object) -> list[tuple[str, str]]:
    """Return the violations (reason, detail) of a level as of Kubernetes 1.`minor`; none for `privileged`."""
    return [found for check in _checks(level, minor) if (found := check(annotations, spec)) is not None]


def _escalation(_: Mapping[str, str], spec: Object) -> Finding:
    bad = [name for name, context in containers(spec) if context.get("allowPrivilegeEscalation") is not False]
    if not bad:
        return None
    detail = f"{container_names(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return "allowPrivilegeEscalation != false", detail


def _app_armor(annotations: Mapping[str, str], spec: Object) -> Finding:
    setters, values = fields.bad_profiles(spec, "appArmorProfile", _PROFILES)
    marked = sorted(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in annotations.items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if marked:
        setters.append("annotation" if len(marked) == 1 else "annotations")
    if not setters:
        return None
    shown = [*values, *marked]
    reason = "forbidden AppArmor profile" if len(shown) == 1 else "forbidden AppArmor profiles"
    return reason, f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(shown)}"


def _capabilities(allowed: Collection[str], context: Object) -> list[str]:
    return [name for name in get_object(context, "capabilities").get("add") or () if name not in allowed]


def _added(spec: Object, allowed: Collection[str]) -> str:
    found = [(name, bad) for name, context in containers(spec) if (bad := _capabilities(allowed, context))]
    names, added = [name for name, _ in found], sorted({item for _, bad in found for item in bad})
    if not names:
        return ""
    return f"{container_names(names)} must not include {quoted(added)} in securityContext.capabilities.add"


def _capabilities_baseline(_: Mapping[str, str], spec: Object) -> Finding:
    detail = _added(spec, _CAPABILITIES)
    return ("non-default capabilities", detail) if detail else None


def _capabilities_restricted(_: Mapping[str, str], spec: Object) -> Finding:
    kept = [
        name
        for name, context in containers(spec)
        if "ALL" not in (get_object(context, "capabilities").get("drop") or ())
    ]
    dropping = f'{container_names(kept)} must set securityContext.capabilities.drop=["ALL"]' if kept else ""
    details = [text for text in (dropping, _added(spec, ("NET_BIND_SERVICE",))) if text]
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def _host_namespaces(_: Mapping[str, str], spec: Object) -> Finding:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return ("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(_: Mapping[str, str], spec: Object) -> Finding:
    bad = [volume.get("name", "") for volume in spec.get("volumes") or () if volume.get("hostPath") is not None]
    return ("hostPath volumes", f"{counted('volume', bad)} {quoted(bad)}") if bad else None


def _host_ports(_: Mapping[str, str], spec: Object) -> Finding:
    bad: list[str] = []
    ports: set[str] = set()
    for container in fields.all_containers(spec):
        if used := {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}:
            bad.append(container.get("name", ""))
            ports |= used
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    return "hostPort", f"{container_names(bad)} {use} {counted('hostPort', ports)} {', '.join(sorted(ports))}"


def _hosts_asked(_: Mapping[str, str], spec: Object) -> Finding:
    bad: set[str] = set()
    hosts: set[str] = set()
    for container in fields.all_containers(spec):
        if asked := set(_hosts(container)):
            bad.add(container.get("name", ""))
            hosts |= asked
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    what = counted("probe or lifecycle host", hosts)
    return "probe or lifecycle host", f"{container_names(sorted(bad))} {use} {what} {quoted(sorted(hosts))}"


def _hosts(container: Object) -> Iterator[str]:
    lifecycle: Object = container.get("lifecycle") or {}
    probes = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in (*probes, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for action in ("httpGet", "tcpSocket"):
            if handler and (host := get_object(handler, action).get("host")):
                yield host


def _privileged(_: Mapping[str, str], spec: Object) -> Finding:
    bad = [name for name, context in containers(spec) if context.get("privileged")]
    return ("privileged", f"{container_names(bad)} must not set securityContext.privileged=true") if bad else None


def _proc_mount(_: Mapping[str, str], spec: Object) -> Finding:
    found = [(name, kind) for name, context in containers(spec) if (kind := context.get("procMount")) is not None]
    bad = [name for name, kind in found if kind != "Default"]
    kinds = sorted({kind for _, kind in found if kind != "Default"})
    detail = f"{container_names(bad)} must not set securityContext.procMount to {quoted(kinds)}"
    return ("procMount", detail) if bad else None


def _volumes(_: Mapping[str, str], spec: Object) -> Finding:
    bad: list[str] = []
    kinds: set[str] = set()
    for volume in spec.get("volumes") or ():
        sources = [key for key, source in volume.items() if key != "name" and source is not None]
        if not _VOLUMES.intersection(sources):
            bad.append(volume.get("name", ""))
            kinds.add(next(iter(sources), "unknown"))
    if not bad:
        return None
    use, what = "uses" if len(bad) == 1 else "use", counted("restricted volume type", kinds)
    detail = f"{counted('volume', bad)} {quoted(bad)} {use} {what} {quoted(sorted(kinds))}"
    return "restricted volume types", detail


def _non_root(_: Mapping[str, str], spec: Object) -> Finding:
    pod = fields.pod_context(spec).get("runAsNonRoot")
    told = [(name, context.get("runAsNonRoot")) for name, context in containers(spec)]
    setters = fields.setters([name for name, value in told if value is False], pod=pod is False)
    if setters:
        return "runAsNonRoot != true", f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
    silent = [name for name, value in told if value is None] if not pod else []
    detail = f"pod or {container_names(silent)} must set securityContext.runAsNonRoot=true"
    return ("runAsNonRoot != true", detail) if silent else None


def _not_user_0(_: Mapping[str, str], spec: Object) -> Finding:
    bad = [name for name, context in containers(spec) if context.get("runAsUser") == 0]
    setters = fields.setters(bad, pod=fields.pod_context(spec).get("runAsUser") == 0)
    return ("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _selinux(allowed: Collection[str], _: Mapping[str, str], spec: Object) -> Finding:
    types: set[str] = set()
    others: set[str] = set()

    def is_bad(context: Object) -> bool:
        options: Object | None = context.get("seLinuxOptions")
        if options is None:
            return False
        kind = options.get("type") or ""
        wrong = {kind} - set(allowed)
        given = {field for field in ("user", "role") if options.get(field)}
        types.update(wrong)
        others.update(given)
        return bool(wrong or given)

    pod = is_bad(fields.pod_context(spec))
    setters = fields.setters([name for name, context in containers(spec) if is_bad(context)], pod=pod)
    if not setters:
        return None
    data = [f"{counted('type', types)} {quoted(sorted(types))}"] if types else []
    data += [f"{field} may not be set" for field in ("user", "role") if field in others]
    return "seLinuxOptions", f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"


def _seccomp_annotations(annotations: Mapping[str, str], spec: Object) -> Finding:
    keys = {_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{name}" for name, _ in containers(spec))}
    bad = sorted(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in annotations.items()
        if key in keys and value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")
    )
    return ("seccompProfile", f"forbidden {counted('annotation', bad)} {', '.join(bad)}") if bad else None


def _seccomp_baseline(_: Mapping[str, str], spec: Object) -> Finding:
    setters, values = fields.bad_profiles(spec, "seccompProfile", _PROFILES)
    detail = f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to {quoted(values)}"
    return ("seccompProfile", detail) if setters else None


def _seccomp_restricted(annotations: Mapping[str, str], spec: Object) -> Finding:
    if (found := _seccomp_baseline(annotations, spec)) is not None:
        return found
    if fields.pod_context(spec).get("seccompProfile") is not None:
        return None
    silent = [name for name, context in containers(spec) if context.get("seccompProfile") is None]
    what = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", f"pod or {container_names(silent)} {what}") if silent else None


def _sysctls(allowed: Collection[str], _: Mapping[str, str], spec: Object) -> Finding:
    named = [item.get("name", "") for item in fields.pod_context(spec).get("sysctls") or ()]
    bad = [name for name in named if name not in allowed]
    return ("forbidden sysctls", ", ".join(bad)) if bad else None


def _windows_host(_: Mapping[str, str], spec: Object) -> Finding:
    def is_bad(context: Object) -> bool:
        return bool(get_object(context, "windowsOptions").get("hostProcess"))

    bad = [name for name, context in containers(spec) if is_bad(context)]
    setters = fields.setters(bad, pod=is_bad(fields.pod_context(spec)))
    detail = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", detail) if setters else None


def _not_on_windows(check: Check) -> Check:
    """Return the check for Pods that do not run on Windows; Windows Pods pass."""
    return lambda annotations, spec: (
        None if get_object(spec, "os").get("name") == "windows" else check(annotations, spec)
    )


def _not_in_user_namespace(check: Check) -> Check:
    """Root in a user namespace of its own is not root (KEP-127)."""
    return lambda annotations, spec: None if spec.get("hostUsers") is False else check(annotations, spec)


@dataclass(frozen=True, slots=True)
class _Versioned:
    """One check: its id, its functions by minor version, and the baseline check that it replaces."""

    since: Sequence[tuple[int, Check]]
    instead_of: str = ""

    def at(self, minor: int) -> Check | None:
        return next((check for first, check in reversed(self.since) if first <= minor), None)


# Both in the order of the findings in messages.
_OF_BASELINE: Mapping[str, _Versioned] = {
    "appArmorProfile": _Versioned(((0, _app_armor),)),
    "capabilities_baseline": _Versioned(((0, _capabilities_baseline),)),
    "hostNamespaces": _Versioned(((0, _host_namespaces),)),
    "hostPathVolumes": _Versioned(((0, _host_paths),)),
    "hostPorts": _Versioned(((0, _host_ports),)),
    "hostProbesAndHostLifecycle": _Versioned(((34, _hosts_asked),)),
    "privileged": _Versioned(((0, _privileged),)),
    "procMount": _Versioned(((0, _proc_mount), (35, _not_in_user_namespace(_proc_mount)))),
    "seLinuxOptions": _Versioned(
        ((0, partial(_selinux, _SELINUX)), (31, partial(_selinux, _SELINUX | {"container_engine_t"})))
    ),
    "seccompProfile_baseline": _Versioned(((0, _seccomp_annotations), (19, _seccomp_baseline))),
    "sysctls": _Versioned(
        (
            (0, partial(_sysctls, _SYSCTLS_0)),
            (27, partial(_sysctls, _SYSCTLS_27)),
            (29, partial(_sysctls, _SYSCTLS_29)),
            (32, partial(_sysctls, _SYSCTLS_32)),
        )
    ),
    "windowsHostProcess": _Versioned(((0, _windows_host),)),
}
_OF_RESTRICTED: Mapping[str, _Versioned] = {
    "allowPrivilegeEscalation": _Versioned(((8, _escalation), (25, _not_on_windows(_escalation)))),
    "capabilities_restricted": _Versioned(
        ((22, _capabilities_restricted), (25, _not_on_windows(_capabilities_restricted))), "capabilities_baseline"
    ),
    "procMount_restricted": _Versioned(((35, _proc_mount),), "procMount"),
    "restrictedVolumes": _Versioned(((0, _volumes),), "hostPathVolumes"),
    "runAsNonRoot": _Versioned(((0, _non_root), (35, _not_in_user_namespace(_non_root)))),
    "runAsUser": _Versioned(((23, _not_user_0), (35, _not_in_user_namespace(_not_user_0)))),
    "seccompProfile_restricted": _Versioned(
        ((19, _seccomp_restricted), (25, _not_on_windows(_seccomp_restricted))), "seccompProfile_baseline"
    ),
}


def _checks(level: str, minor: int) -> Iterator[Check]:
    if level not in (BASELINE, RESTRICTED):
        return
    more: dict[str, Any] = {}
    if level == RESTRICTED:
        more = {name: check for name, known in _OF_RESTRICTED.items() if (check := known.at(minor)) is not None}
    replaced = {_OF_RESTRICTED[name].instead_of for name in more}
    for name, known in _OF_BASELINE.items():
        if name not in replaced and (check := known.at(minor)) is not None:
            yield check
    yield from more.values()
