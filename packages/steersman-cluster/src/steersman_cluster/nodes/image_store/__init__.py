"""Images on this machine: archives are imported into a store, and process nodes run containers from it."""

from steersman_cluster.nodes.image_store.errors import ImageArchiveError
from steersman_cluster.nodes.image_store.store import ImageStore, StoredImage

__all__ = ["ImageArchiveError", "ImageStore", "StoredImage"]
