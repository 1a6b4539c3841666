"""PersistentVolumes, their claims, and VolumeAttributesClasses."""
