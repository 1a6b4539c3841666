"""In which form an answer is wanted: JSON, YAML or protobuf; whole, as a table, or metadata alone."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from steersman.devcluster.errors import APIError, not_acceptable

__all__ = ["Form", "form_of"]

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"


class Form(NamedTuple):
    """How to answer."""

    media: str = JSON
    shape: str = ""
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList`, or `""` for the object itself."""
    stream: bool = False

    @property
    def plain(self) -> bool:
        return self.media == JSON and not self.shape


PLAIN = Form()


@lru_cache(maxsize=512)
def form_of(accept: str, *, custom: bool = False, watch: bool = False) -> Form | APIError:
    """The first form of an `Accept` header that can be had; an error (to raise) where there is none.

    `custom` resources have no protobuf form.
    """
    if not accept or accept in (JSON, "*/*"):
        return PLAIN
    for clause in sorted((c.strip() for c in accept.split(",") if c.strip()), key=_quality, reverse=True):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(p.split("=", 1) for p in parameters if "=" in p)
        media = {"*/*": JSON, "application/*": JSON, "text/yaml": YAML, "application/x-yaml": YAML}.get(
            media.lower(), media.lower()
        )
        if media not in (JSON, YAML, PROTOBUF) or (media == PROTOBUF and custom):
            continue
        if watch and media == YAML:
            continue
        shape = options.get("as", "")
        if shape:
            if options.get("g") != "meta.k8s.io" or options.get("v") not in ("v1", "v1beta1"):
                continue
            if shape not in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
                continue
            if shape == "Table" and media == PROTOBUF:
                continue
        return Form(media, shape, options.get("stream") == "watch")
    offered = (JSON, YAML) if custom else (JSON, YAML, PROTOBUF)
    return not_acceptable(f"only the following media types are accepted: {', '.join(offered)}")


def _quality(clause: str) -> float:
    for part in clause.split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
