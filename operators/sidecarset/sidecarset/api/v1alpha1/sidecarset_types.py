"""The SidecarSet kind: which containers go into which Pods, how changes roll out, and what has become of it."""

from typing import Annotated, Literal

from steersman import Column, Conditions, IntOrString, LabelSelector, MinItems, Model, Resource
from steersman.k8s import Container


class UpdateStrategy(Model):
    type: Literal["RollingUpdate", "NotUpdate"] = "RollingUpdate"
    """`RollingUpdate` gives running Pods new images in place; `NotUpdate` leaves them as they are."""
    max_unavailable: IntOrString = 1
    """How many Pods, or what share of them, may be not ready while images are changed. Shares are rounded up."""
    partition: IntOrString = 0
    """How many Pods, or what share of them, keep what they have. Shares are rounded up."""


class SidecarSetSpec(Model):
    selector: LabelSelector
    """Pods with these labels get the containers, in every namespace but kube-system and kube-public."""
    containers: Annotated[tuple[Container, ...], MinItems(1)]
    """What is added to each Pod, in this order, after the Pod's own containers."""
    update_strategy: UpdateStrategy = UpdateStrategy()
    """What is done about Pods that run when the containers change."""


class SidecarSetStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    # None is what was never counted, so that a count of 0 is written, and shown in the columns.
    matched_pods: int | None = None
    """Pods that the selector matches, and that neither have finished nor are being deleted."""
    updated_pods: int | None = None
    """Matched Pods that have the containers of the current generation."""
    ready_pods: int | None = None
    """Matched Pods that run and are ready."""
    waiting_pods: int | None = None
    """Matched Pods that only get the current containers when they are created anew."""
    conditions: Conditions = ()
    """`Updated` is True when every matched Pod has the current containers; its message says what is waited for."""


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
    """Containers that every Pod with some labels is given."""

    spec: SidecarSetSpec
    status: SidecarSetStatus = SidecarSetStatus()
