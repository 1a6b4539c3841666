"""The API server's defaults of containers, set in the SidecarSet itself.

So equal SidecarSets have equal content, and Pods get the containers that the SidecarSet shows. Idempotent.
"""

from __future__ import annotations

from steersman import replace
from steersman.k8s import Container, HTTPGetAction, Lifecycle, LifecycleHandler, Probe

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet


def defaulted(sidecars: SidecarSet) -> SidecarSet:
    """Return the SidecarSet with all defaults of its containers."""
    containers = tuple(map(with_defaults, sidecars.spec.containers))
    return replace(sidecars, spec=replace(sidecars.spec, containers=containers))


def with_defaults(container: Container) -> Container:
    """Return the container as the API server would store it in a Pod."""
    return replace(
        container,
        image_pull_policy=container.image_pull_policy or pull_policy(container.image or ""),
        termination_message_path=container.termination_message_path or "/dev/termination-log",
        termination_message_policy=container.termination_message_policy or "File",
        ports=tuple(replace(port, protocol=port.protocol or "TCP") for port in container.ports),
        liveness_probe=_probe(container.liveness_probe),
        readiness_probe=_probe(container.readiness_probe),
        startup_probe=_probe(container.startup_probe),
        lifecycle=_lifecycle(container.lifecycle),
    )


def pull_policy(image: str) -> str:
    """Return `Always` for images with the tag `latest` or without a tag, else `IfNotPresent`."""
    name, _, digest = image.partition("@")
    head, colon, tag = name.rpartition(":")
    if colon and head and "/" not in tag:
        return "Always" if tag == "latest" else "IfNotPresent"
    return "IfNotPresent" if digest or not name else "Always"


def _probe(probe: Probe | None) -> Probe | None:
    if probe is None:
        return None
    return replace(
        probe,
        timeout_seconds=probe.timeout_seconds or 1,
        period_seconds=probe.period_seconds or 10,
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
        http_get=_http(probe.http_get),
    )


def _http(action: HTTPGetAction | None) -> HTTPGetAction | None:
    return action and replace(action, path=action.path or "/", scheme=action.scheme or "HTTP")


def _lifecycle(lifecycle: Lifecycle | None) -> Lifecycle | None:
    return lifecycle and replace(lifecycle, post_start=_hook(lifecycle.post_start), pre_stop=_hook(lifecycle.pre_stop))


def _hook(hook: LifecycleHandler | None) -> LifecycleHandler | None:
    return hook and replace(hook, http_get=_http(hook.http_get))
