"""The SidecarSet kind: its containers, the selector of its Pods, the update strategy, and the status."""

from typing import Annotated, Literal

from steersman import Column, Conditions, IntOrString, LabelSelector, MinItems, Model, Resource
from steersman.k8s import Container


class UpdateStrategy(Model):
    type: Literal["RollingUpdate", "NotUpdate"] = "RollingUpdate"
    """`RollingUpdate` gives running Pods new images in place; `NotUpdate` leaves them as they are."""
    max_unavailable: IntOrString = 1
    """How many Pods, or which share of them, may be unavailable during an update. Shares are rounded up."""
    partition: IntOrString = 0
    """How many Pods, or which share of them, keep their images. Shares are rounded up."""


class SidecarSetSpec(Model):
    selector: LabelSelector
    """Pods with these labels get the containers, in every namespace but kube-system and kube-public."""
    containers: Annotated[tuple[Container, ...], MinItems(1)]
    """Containers that are added to each Pod, in this order, after the Pod's own containers."""
    update_strategy: UpdateStrategy = UpdateStrategy()
    """How running Pods are updated when the containers change."""


class SidecarSetStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    # None stands for a count that was never written, so that 0 is written and printed in the columns.
    matched_pods: int | None = None
    """Pods that the selector matches, without finished and terminating ones."""
    updated_pods: int | None = None
    """Matched Pods that have the containers of the current generation."""
    ready_pods: int | None = None
    """Matched Pods that are running and ready."""
    waiting_pods: int | None = None
    """Matched Pods that get the current containers only when they are created again."""
    conditions: Conditions = ()
    """`Updated` is True when every matched Pod has the current containers; its message has the reason for waiting."""


class SidecarSet(
    Resource,
    group="apps.kruise.io",
    version="v1alpha1",
    namespaced=False,
    columns=(
        Column("Matched", "status.matched_pods"),
        Column("Updated", "status.updated_pods"),
        Column("Ready", "status.ready_pods"),
    ),
):
    """Containers that are added to every Pod with some labels."""

    spec: SidecarSetSpec
    status: SidecarSetStatus = SidecarSetStatus()
