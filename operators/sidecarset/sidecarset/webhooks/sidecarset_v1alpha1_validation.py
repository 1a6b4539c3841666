"""Refuses a SidecarSet of apps.kruise.io/v1alpha1 with containers that are invalid in every Pod."""

from steersman import Admission, Invalid

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet
from sidecarset.manager import operator
from sidecarset.validation import conflicts, errors_of


@operator.validator(reads=[SidecarSet])
async def validate(sidecars: SidecarSet, old: SidecarSet | None, ctx: Admission) -> None:
    if sidecars.metadata.deletion_timestamp is not None:
        return  # its finalizers must be able to go
    if found := [*errors_of(sidecars), *conflicts(sidecars, ctx.list(SidecarSet))]:
        raise Invalid(found)
