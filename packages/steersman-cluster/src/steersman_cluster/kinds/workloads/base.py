"""The base class of the kinds with a Pod template: template, status, generation.

Each kind names the path of its template and adds its own rules. Nothing here reads storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steersman_cluster.errors import FieldError
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.kinds.pods.defaults import default_template, drop_disabled
from steersman_cluster.kinds.pods.warnings import name_warnings, template_warnings
from steersman_cluster.objects import Object, Path, dig, meta
from steersman_cluster.strategy import WriteContext

__all__ = ["Workload", "replicas"]


class Workload(Plain):
    """The strategy of kinds with a Pod template in their spec."""

    generation = True
    has_status = True
    revalidated = False
    template: tuple[str, ...] = ("spec", "template")
    warns_of_name = True
    counted: tuple[str, ...] = ()
    """Numbers that stand in the status even when nothing was counted."""
    kept_metadata: tuple[str, ...] = ()
    """Return the metadata that a write of the status keeps."""

    def default(self, obj: Object) -> None:
        """The template's defaults, then the kind's."""
        parent: Object = obj
        for name in self.template[:-1]:
            parent = parent.setdefault(name, {})
        default_template(parent.setdefault(self.template[-1], {}))
        self.default_own(obj, obj.setdefault("spec", {}))

    def default_own(self, obj: Object, spec: Object) -> None:
        """Set the defaults of the kind outside of the template."""

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        """Set the fields that the API server owns in a changed object."""
        drop_disabled(dig(obj, *self.template, "spec", default={}))
        super().prepare_update(obj, old, ctx)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        """Set the fields that the API server owns in a new object."""
        drop_disabled(dig(obj, *self.template, "spec", default={}))
        super().prepare_create(obj, ctx)
        if self.has_status:
            obj["status"] = dict.fromkeys(self.counted, 0)

    def isolate_status(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        """Restore the fields that the endpoint of the request does not change."""
        super().isolate_status(obj, old, ctx)
        if ctx.subresource == "status":
            for name in self.kept_metadata:
                if name in meta(old):
                    meta(obj)[name] = meta(old)[name]
                else:
                    meta(obj).pop(name, None)

    revalidated_after = False
    """Whether the spec's errors come before what may not change."""

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        """Return the errors of a changed object."""
        if ctx.subresource == "status":
            return super().validate_update(obj, old, ctx)
        if not self.revalidated_after:
            again = metadata.repeated_update(obj, old)
            return [*again, *self.changes(obj, old), *self.errors(obj)]
        return [*metadata.repeated_update(obj, old), *self.errors(obj), *self.changes(obj, old)]

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        """Return warnings for the client."""
        if ctx.subresource:
            return ()
        found = list(name_warnings(obj)) if old is None and self.warns_of_name else []
        if old is None or meta(obj).get("generation") != meta(old).get("generation"):
            found += template_warnings(Path(".".join(self.template)), dig(obj, *self.template))
        return found


def replicas(obj: Object) -> Any:
    """Return the desired number of replicas."""
    return dig(obj, "spec", "replicas", default=0)
