"""The form of a response: JSON, YAML or protobuf; the object, a table, or metadata only.

Two steps, as in the API server: first the route, which knows media types by name only, then the negotiation, which
knows parameters and qualities. Custom resources have the second only, and no protobuf.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from steersman_cluster.errors import APIError, not_acceptable

__all__ = ["JSON", "PROTOBUF", "YAML", "Form", "form_of", "quality"]

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_ROUTED: Final = frozenset((JSON, YAML, PROTOBUF, "*/*"))
_SHAPES: Final = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_VERSIONS: Final = ("v1", "v1beta1")


class Form(NamedTuple):
    """The negotiated form of a response: encoding, and object, table or metadata."""

    media: str = JSON
    shape: str = ""
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList`, or `""` for the object itself."""
    version: str = "v1"
    """The version of meta.k8s.io of tables and metadata."""

    @property
    def plain(self) -> bool:
        """Return whether it is the object's own JSON."""
        return self.media == JSON and not self.shape


_PLAIN: Final = Form()


@lru_cache(maxsize=512)
def form_of(
    accept: str, *, custom: bool = False, watch: bool = False, listing: bool = False, tables: bool = True
) -> Form | APIError:
    """The first form of an `Accept` header that can be had; an error (to raise) where there is none.

    `listing` says that the route also has watches, which the refusal then tells; `tables`, that the kind has a table.
    """
    if not accept or accept in (JSON, "*/*"):
        return _PLAIN
    clauses = [clause.strip() for clause in accept.split(",") if clause.strip()]
    if not custom and not _ROUTED.intersection(clause.partition(";")[0].strip() for clause in clauses):
        return _not_routed(listing=listing)
    for clause in sorted(clauses, key=quality, reverse=True):
        form = _form(clause, custom=custom, watch=watch, tables=tables)
        if form is not None:
            return form
    offered = (JSON, YAML) if custom else (JSON, YAML, PROTOBUF)
    return not_acceptable(f"only the following media types are accepted: {', '.join(offered)}")


def _not_routed(*, listing: bool) -> APIError:
    offered = [JSON, YAML, PROTOBUF]
    if listing:
        offered += [f"{JSON};stream=watch", f"{PROTOBUF};stream=watch"]
    text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}"
    return APIError(406, "NotAcceptable", text, {})


def _form(clause: str, *, custom: bool, watch: bool, tables: bool) -> Form | None:
    media, *parameters = (part.strip() for part in clause.split(";"))
    if media in ("*/*", "application/*"):
        media = JSON
    if media not in (JSON, YAML, PROTOBUF) or (media == PROTOBUF and custom) or (media == YAML and watch):
        return None
    options = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
    shape, version = options.get("as", ""), options.get("v", "v1")
    if shape:
        if options.get("g") != "meta.k8s.io" or options.get("v") not in _VERSIONS or shape not in _SHAPES:
            return None
        if shape == "Table" and (media == PROTOBUF or not tables):
            return None
    return Form(media, shape, version)


def quality(clause: str) -> float:
    """The quality of one clause of an `Accept` header; 1 where it has none."""
    for part in clause.split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
