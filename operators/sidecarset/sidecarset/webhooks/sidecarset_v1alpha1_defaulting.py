"""Defaults of a SidecarSet of apps.kruise.io/v1alpha1 that the API server sets in the containers of a Pod, too."""

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet
from sidecarset.defaults import defaulted
from sidecarset.manager import operator


@operator.defaulter
def default(sidecars: SidecarSet) -> SidecarSet:
    return defaulted(sidecars)
