"""Mutating and validating webhooks: matching, calls, and the effects of their responses.

Mutating webhooks are called one after the other, each with the object that the one before returned; those with
`reinvocationPolicy: IfNeeded` are called again if later ones changed the object. Validating webhooks are called
concurrently, and the first refusal is returned. Texts and codes follow the API server's `admission/plugin/webhook`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from steersman_cluster.admission.access import Access
from steersman_cluster.admission.conditions import ConditionError, conditions_match
from steersman_cluster.admission.configurations import MUTATING, VALIDATING, Webhook, Webhooks
from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.matching import (
    Equivalent,
    Equivalents,
    converted,
    is_exempt,
    matches_objects,
    matching_resource,
)
from steersman_cluster.admission.review import Answer, InvalidReviewError, denied, question, read_review
from steersman_cluster.admission.webhook_calls import CallError, WebhookCaller
from steersman_cluster.admission.write import Write
from steersman_cluster.auth.rbac import Authorizer
from steersman_cluster.errors import APIError, bad_request, internal, not_found
from steersman_cluster.json_access import get_objects, get_strings
from steersman_cluster.objects import Object, labels_of
from steersman_cluster.patch.json_patch import json_patch
from steersman_cluster.strategy import Reader

__all__ = ["MutatingRound", "WebhookAdmission"]

Call = Callable[[Object, Object, float], Awaitable[Any]]


class _FailedError(Exception):
    """A webhook that gave no usable answer; the text goes on after `failed calling webhook "…": `."""


@dataclass(slots=True)
class MutatingRound:
    """State of one write between the two rounds of mutating webhooks."""

    changed: bool = False
    """Whether a webhook changed the object."""
    again: set[str] = field(default_factory=set[str])
    """Those to be asked once more."""
    asked: set[str] = field(default_factory=set[str])
    """The called webhooks with `reinvocationPolicy: IfNeeded`."""
    last: Object | None = None
    """The object after the first round."""


class WebhookAdmission:
    """The webhooks of one API server."""

    def __init__(
        self,
        reader: Reader,
        lookups: Lookups,
        caller: WebhookCaller,
        *,
        equivalents: Equivalents | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.mutating = Webhooks(reader, MUTATING)
        self.validating = Webhooks(reader, VALIDATING)
        self._lookups = lookups
        self._caller = caller
        self._equivalents = equivalents
        self._authorizer = authorizer

    def changed(self, resource: str) -> None:
        """A configuration was written or deleted."""
        self.mutating.changed(resource)
        self.validating.changed(resource)

    def concerns(self, write: Write, hooks: Webhooks) -> bool:
        """Return whether a rule may match a write, before any selector; cheap."""
        known = hooks.all()
        return (
            bool(known)
            and not is_exempt(write)
            and any(matching_resource(hook.spec, write, self._equivalents) is not None for hook in known)
        )

    async def mutate(self, write: Write, state: MutatingRound, *, again: bool) -> None:
        """Ask the mutating webhooks, all or (`again`) those that are to be asked once more. Changes `write.obj`."""
        if is_exempt(write):
            return
        if again and write.obj != state.last:
            state.again |= state.asked
            state.asked = set()
        for index, hook in enumerate(self.mutating.all()):
            if again and hook.uid not in state.again:
                continue
            seen = await self._matching(hook, write)
            if seen is None:
                continue
            await self._mutate_one(hook, seen, write, state, index, 1 if again else 0)
        state.last = write.obj

    async def _mutate_one(
        self, hook: Webhook, seen: Equivalent, write: Write, state: MutatingRound, index: int, round_: int
    ) -> None:
        place = f"round_{round_}_index_{index}"
        origin = {"configuration": hook.configuration, "webhook": hook.name}
        changed = False
        try:
            answer = await self._call_webhook(hook, seen, write, mutating=True)
            if not answer.allowed:
                raise denied(hook.name, answer.status)
            patch = _patch(answer)
            if patch:
                changed = await self._apply(hook, seen, write, patch)
                annotation = {**origin, "patch": patch, "patchType": "JSONPatch"}
                write.audit_annotations[f"patch.webhook.admission.k8s.io/{place}"] = _json(annotation)
        except _FailedError as error:
            text = f"failed calling webhook {json.dumps(hook.name)}: {error}"
            if not hook.ignores_failures:
                raise internal(text) from None
            write.audit_annotations[f"failed-open.mutation.webhook.admission.k8s.io/{place}"] = hook.name
        finally:
            annotation = {**origin, "mutated": changed}
            write.audit_annotations[f"mutation.webhook.admission.k8s.io/{place}"] = _json(annotation)
        if changed:
            state.changed = True
            state.again |= state.asked
            state.asked = set()
        if hook.spec.get("reinvocationPolicy") == "IfNeeded":
            state.asked.add(hook.uid)

    async def validate(self, write: Write) -> None:
        """Ask the validating webhooks, all at once; raises the refusal of the first that refuses."""
        if is_exempt(write):
            return
        wanting = [
            (hook, seen) for hook in self.validating.all() if (seen := await self._matching(hook, write)) is not None
        ]
        if not wanting:
            return
        if len(wanting) == 1:
            await self._validate_one(*wanting[0], write, 0)
            return
        tasks = [
            asyncio.create_task(self._validate_one(hook, seen, write, index))
            for index, (hook, seen) in enumerate(wanting)
        ]
        try:
            # All are waited for, as there: side effects of a later one are not cut off by an earlier refusal.
            results = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _validate_one(self, hook: Webhook, seen: Equivalent, write: Write, index: int) -> None:
        try:
            answer = await self._call_webhook(hook, seen, write, mutating=False)
        except _FailedError as error:
            if not hook.ignores_failures:
                raise internal(f"failed calling webhook {json.dumps(hook.name)}: {error}") from None
            key = f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}"
            write.audit_annotations[key] = hook.name
            return
        if not answer.allowed:
            raise denied(hook.name, answer.status)

    async def _matching(self, hook: Webhook, write: Write) -> Equivalent | None:
        """Return the version in which a webhook receives a write; `None` if it does not match."""
        seen = matching_resource(hook.spec, write, self._equivalents)
        if seen is None:
            return None
        labels: dict[str, str] | None = None
        if write.effective_namespace and hook.spec.get("namespaceSelector"):
            labels = self._namespace_labels(write)
        if not matches_objects(hook.spec, write, labels):
            return None
        if conditions := get_objects(hook.spec, "matchConditions"):
            obj, old = await self._versioned(seen, write)
            request: Object = question("", write, seen, None, None)["request"]
            bound: dict[str, Any] = {"object": obj, "oldObject": old, "request": request}
            if self._authorizer is not None:
                bound["authorizer"] = Access(self._authorizer, write.user)
            try:
                wanted = conditions_match(conditions, bound)
            except ConditionError as error:
                if hook.ignores_failures:
                    return None
                raise write.forbidden(str(error)) from None
            if not wanted:
                return None
        return seen

    def _namespace_labels(self, write: Write) -> dict[str, str]:
        if write.resource == "namespaces" and not write.group:
            # Selectors match the labels that the namespace is to have.
            namespace = write.obj if write.obj is not None else write.old
            return dict(labels_of(namespace or {}))
        labels = self._lookups.namespace_labels(write.namespace)
        if labels is None:
            raise not_found("", "namespaces", write.namespace)
        return labels

    async def _call_webhook(self, hook: Webhook, seen: Equivalent, write: Write, *, mutating: bool) -> Answer:
        if write.dry_run and hook.spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f"admission webhook {json.dumps(hook.name)} does not support dry run")
        if "v1" not in (get_strings(hook.spec, "admissionReviewVersions") or ["v1"]):
            text = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise _FailedError(f"could not create admission objects: {text}")
        uid = str(uuid4())
        obj, old = await self._versioned(seen, write)
        try:
            body = await self._caller.call(hook.client_config, question(uid, write, seen, obj, old), hook.timeout)
        except CallError as error:
            raise _FailedError(f"failed to call webhook: {error}" if error.prepared else str(error)) from None
        try:
            answer = read_review(body, uid, mutating=mutating)
        except InvalidReviewError as error:
            raise _FailedError(f"received invalid webhook response: {error}") from None
        for key, value in answer.audit_annotations.items():
            write.audit_annotations[f"{hook.name}/{key}"] = value
        write.warnings.extend(answer.warnings)
        return answer

    async def _apply(self, hook: Webhook, seen: Equivalent, write: Write, patch: list[Any]) -> bool:
        """Apply a webhook's patch to the object; whether it changed anything."""
        if write.obj is None:
            raise internal(
                f"admission webhook {json.dumps(hook.name)} attempted to modify the object, which is not supported"
                " for this operation"
            )
        before, _ = await self._versioned(seen, write)
        try:
            after = json_patch(before or {}, patch)
        except APIError as error:
            raise internal(str(error.__cause__ or error)) from None
        if not isinstance(after, dict):
            raise internal("the webhook's patch leaves no object")
        made: Object = after  # pyright: ignore[reportUnknownVariableType]
        if not _is_same_version(seen, write) and self._equivalents is not None:
            own = Equivalent(
                write.group, write.version, write.resource, write.kind, write.kind_group, write.kind_version
            )
            made = await self._equivalents.convert(made, own)
        if write.normalise is not None:
            try:
                write.normalise(made)
            except ValueError as error:
                raise internal(str(error)) from None
        changed = made != write.obj
        write.obj = made
        return changed

    async def _versioned(self, seen: Equivalent, write: Write) -> tuple[Object | None, Object | None]:
        """Object and old object in the version that the webhook asked for."""
        if _is_same_version(seen, write) or self._equivalents is None:
            return write.obj, write.old
        known = write.converted.get((seen.group, seen.version, seen.resource))
        return known or await converted(write, seen, self._equivalents)


def _is_same_version(seen: Equivalent, write: Write) -> bool:
    return (seen.group, seen.version) == (write.group, write.version)


def _patch(answer: Answer) -> list[Any]:
    if not answer.patch:
        return []
    try:
        patch = json.loads(answer.patch)
    except ValueError:
        text = "unexpected end of JSON input"
        raise _FailedError(f"received undecodable patch in webhook response: {text}") from None
    if not isinstance(patch, list):
        text = "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        raise _FailedError(f"received undecodable patch in webhook response: {text}")
    if patch and answer.patch_type != "JSONPatch":
        raise _FailedError(f"unsupported patch type {json.dumps(answer.patch_type)}")
    return patch  # pyright: ignore[reportUnknownVariableType]


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
