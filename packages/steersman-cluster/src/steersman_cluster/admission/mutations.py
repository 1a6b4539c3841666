"""MutatingAdmissionPolicies: changes in CEL to objects that a binding selects, before the mutating webhooks.

Follows the API server's `admission/plugin/policy/mutating` (KEP-3962).
"""

from __future__ import annotations

import copy
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from steersman_cluster.admission.bound_policies import BoundPolicies, ConfigurationError, is_own_version
from steersman_cluster.admission.conditions import ConditionError, Expressions, conditions_match
from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.matching import Equivalent, Equivalents
from steersman_cluster.admission.write import Write
from steersman_cluster.auth.rbac import Authorizer
from steersman_cluster.errors import APIError, internal
from steersman_cluster.fields import atomic_paths, merge, validate
from steersman_cluster.json_access import get_object, get_objects
from steersman_cluster.objects import Object, meta, name_of
from steersman_cluster.patch import FailedTestError, json_patch
from steersman_cluster.schema import Type
from steersman_cluster.strategy import Reader

__all__ = ["MutatingPolicies", "PolicyRound", "run_without_waiting"]

_RESOURCES = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
_Result = TypeVar("_Result")
_Key = tuple[str, str, str, str]


class _MutationError(Exception):
    """A mutation failed; the text follows `denied request: `."""


@dataclass(slots=True)
class PolicyRound:
    """State of one write between the two rounds of mutating policies."""

    changed: bool = False
    """Whether a policy changed the object."""
    again: set[_Key] = field(default_factory=set[_Key])
    """Policies, bindings and parameters to be evaluated once more."""
    evaluated: set[_Key] = field(default_factory=set[_Key])
    """Those evaluated before, with `reinvocationPolicy: IfNeeded`."""
    last: Object | None = None
    """The object after the first round."""


@dataclass(frozen=True, slots=True)
class _Invocation:
    policy: Object
    binding: Object
    param: Object | None
    seen: Equivalent

    @property
    def key(self) -> _Key:
        param = meta(self.param) if self.param is not None else {}
        return name_of(self.policy), name_of(self.binding), param.get("namespace") or "", param.get("name") or ""


class MutatingPolicies(BoundPolicies):
    """The MutatingAdmissionPolicies of one API server."""

    def __init__(
        self,
        reader: Reader,
        lookups: Lookups,
        equivalents: Equivalents | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        super().__init__(reader, lookups, _RESOURCES, equivalents, authorizer)

    async def apply(self, write: Write, state: PolicyRound, *, again: bool) -> None:
        """Apply the mutating policies to the object of a write; the second round (`again`) repeats some of them.

        Waits only for conversion webhooks.

        Raises:
            APIError: A policy with `failurePolicy: Fail` cannot be evaluated (403, or the reason of the failure).
        """
        found, errors = self._invocations(write)
        if again and write.obj != state.last:
            state.again |= state.evaluated
            state.evaluated = set()
        for invocation in found:
            await self._invoke(invocation, write, state, errors, again=again)
        state.last = write.obj
        _refuse(write, errors)

    def _invocations(self, write: Write) -> tuple[list[_Invocation], list[_Refusal]]:
        found: list[_Invocation] = []
        errors: list[_Refusal] = []
        for policy, binding, seen in self.matching(write):
            try:
                params = self.params(
                    get_object(policy, "spec"), get_object(get_object(binding, "spec"), "paramRef"), write
                )
            except ConfigurationError as error:
                errors.append(_Refusal(policy, binding, f"failed to configure binding: {error}"))
                continue
            found += [_Invocation(policy, binding, param, seen) for param in params]
        return found, errors

    async def _invoke(
        self, invocation: _Invocation, write: Write, state: PolicyRound, errors: list[_Refusal], *, again: bool
    ) -> None:
        spec = get_object(invocation.policy, "spec")
        bound = self.variables(invocation.param, invocation.seen, write, await self._versions(invocation.seen, write))
        try:
            if (conditions := get_objects(spec, "matchConditions")) and not conditions_match(conditions, bound):
                return
        except ConditionError as error:
            errors.append(_Refusal(invocation.policy, invocation.binding, str(error), "Invalid"))
            return
        if again and invocation.key not in state.again:
            return
        before = write.obj
        for mutation in get_objects(spec, "mutations"):
            if write.obj is None:
                break
            try:
                made = self._mutated(mutation, spec, bound, invocation.seen)
            except (_MutationError, ConditionError) as error:
                errors.append(_Refusal(invocation.policy, invocation.binding, str(error), "Invalid"))
                continue
            await self._store(copy.deepcopy(made), invocation.seen, write)
            bound["object"], _ = await self._versions(invocation.seen, write)
        if write.obj != before:
            state.changed = True
            state.again |= state.evaluated
            state.evaluated = set()
        if spec.get("reinvocationPolicy") == "IfNeeded":
            state.evaluated.add(invocation.key)

    async def _versions(self, seen: Equivalent, write: Write) -> tuple[Object | None, Object | None]:
        if is_own_version(seen, write) or self._equivalents is None:
            return write.obj, write.old
        convert = self._equivalents.convert
        return (
            None if write.obj is None else await convert(write.obj, seen),
            None if write.old is None else await convert(write.old, seen),
        )

    async def _store(self, made: Object, seen: Equivalent, write: Write) -> None:
        """Take a changed object over into the write, in the version of the request."""
        if not is_own_version(seen, write) and self._equivalents is not None:
            own = Equivalent(
                write.group, write.version, write.resource, write.kind, write.kind_group, write.kind_version
            )
            made = await self._equivalents.convert(made, own)
        if write.normalise is not None:
            try:
                write.normalise(made)
            except ValueError as error:
                raise internal(str(error)) from None
        write.obj = made

    def _mutated(self, mutation: Object, spec: Object, bound: dict[str, Any], seen: Equivalent) -> Object:
        if mutation.get("patchType") == "JSONPatch":
            return _patched(cast(Object, bound["object"]), get_object(mutation, "jsonPatch"), spec, bound)
        kind = None if self._equivalents is None else self._equivalents.structure(seen)
        if kind is None:
            raise _MutationError("type converter must not be nil")
        return _applied(cast(Object, bound["object"]), get_object(mutation, "applyConfiguration"), spec, bound, kind)


@dataclass(frozen=True, slots=True)
class _Refusal:
    policy: Object
    binding: Object
    message: str
    reason: str = ""

    @property
    def counts(self) -> bool:
        return get_object(self.policy, "spec").get("failurePolicy") != "Ignore"

    def __str__(self) -> str:
        policy, binding = name_of(self.policy), name_of(self.binding)
        return f"policy '{policy}' with binding '{binding}' denied request: {self.message}"


def run_without_waiting(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine that has nothing to wait for, at once. Raises `RuntimeError` where it waits after all."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    finally:
        work.close()
    raise RuntimeError("the coroutine waits")


def _refuse(write: Write, errors: list[_Refusal]) -> None:
    counted = [error for error in errors if error.counts]
    if not counted:
        return
    refusal = write.forbidden("", *({"message": str(error)} for error in counted))
    refusal.message = str(counted[0])
    if counted[0].reason:
        refusal.reason = counted[0].reason
    raise refusal


def _evaluated(mutation: Object, spec: Object, bound: dict[str, Any]) -> Any:
    from steersman_cluster import cel  # late, as in `conditions`

    expression = (mutation.get("expression") or "").strip()
    expressions = Expressions(bound, cel.Budget(cel.OBJECT_BUDGET), get_objects(spec, "variables"))
    try:
        return expressions.evaluate(expression, patches=True)
    except ValueError as error:
        raise _MutationError(f"expression '{expression}' resulted in error: {error}") from None


def _patched(obj: Object, mutation: Object, spec: Object, bound: dict[str, Any]) -> Object:
    from steersman_cluster import cel

    operations: list[Object] = []
    for operation in cast("list[Any]", _evaluated(mutation, spec, bound)):
        made = {name: value for name, value in operation.items() if name != "from" or value}
        if "value" in made:
            if errors := cel.name_errors(made["value"]):
                raise _MutationError("type mismatch: " + "\n".join(errors))
            made["value"] = _json(made["value"])
        operations.append({"op": "", "path": "", **made})
    try:
        return cast(Object, json_patch(obj, operations))
    except APIError as error:
        if isinstance(error.__cause__, FailedTestError):
            return obj
        raise _MutationError(f"JSON Patch: {error.__cause__ or error}") from None


def _applied(obj: Object, mutation: Object, spec: Object, bound: dict[str, Any], kind: Type) -> Object:
    from steersman_cluster import cel

    value = _evaluated(mutation, spec, bound)
    if errors := cel.name_errors(value):
        raise _MutationError("type mismatch: " + "\n".join(errors))
    applied: Object = {**_json(value), "apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    if problem := validate(applied, kind):
        raise _MutationError(f"error applying patch: failed to convert patch object to typed object: {problem}")
    if atomics := atomic_paths(applied, kind):
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise _MutationError(f"error applying patch: invalid ApplyConfiguration: {text}")
    return cast(Object, merge(obj, applied, kind))


def _json(value: Any) -> Any:
    from steersman_cluster import cel

    try:
        return cel.json_of(value)
    except ValueError as error:
        raise _MutationError(str(error)) from None
