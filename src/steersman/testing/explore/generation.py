"""Scenarios from the types of a custom resource: random sequences of create, update and delete.

Needs `hypothesis`, which reduces a failing sequence. The embedded API server's own rules decide which objects are
valid: structural schema, then CEL rules, including those that compare with the former object.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

from steersman.models import Resource, info_of
from steersman.testing.conversion import spec_fields
from steersman.testing.explore.scenario import FileScenario, Step
from steersman.testing.explore.scenario_run import ScenarioRun
from steersman_cluster.crd.strategy import CustomStrategy
from steersman_cluster.objects import Object
from steersman_cluster.strategy import Reader, User, WriteContext

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["REFUSED", "ChangeSequence", "sequences_of"]

REFUSED: Final = "refused"
"""The text in the trace of a run in which an object was refused, for example by a webhook of the operator."""
_UNSET: Final = object()


class _NoAliases(yaml.SafeDumper):
    """Writes equal values again instead of an alias."""

    def ignore_aliases(self, data: object) -> bool:
        """Return true: there are no aliases."""
        return True


@dataclass(frozen=True)
class ChangeSequence:
    """A sequence of changes of one object: its manifests in order; `None` deletes it.

    Args:
        kind: The kind with its group, such as `App.example.com`.
        manifests: The manifests.
    """

    kind: str
    manifests: tuple[Mapping[str, Any] | None, ...]

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(next(one for one in self.manifests if one is not None)["metadata"]["name"])

    def direct(self) -> ChangeSequence:
        """Return the sequence of the last manifest alone, which a level-triggered operator ends with, too."""
        return ChangeSequence(self.kind, self.manifests[-1:])

    def scenario(self, settings: Mapping[str, Any], replicas: int = 1) -> FileScenario:
        """Return the scenario of a file with the same steps."""
        return FileScenario(tuple(self._steps()), settings, replicas)

    def text(self) -> str:
        """Return the scenario as YAML, as `steersman explore --scenario` reads it."""
        steps = [
            {"apply": dict(one)} if one is not None else {"delete": f"{self.kind}/{self.name}"}
            for one in self.manifests
        ]
        return yaml.dump({"steps": steps}, Dumper=_NoAliases, sort_keys=False)

    def _steps(self) -> Iterable[Step]:
        for one in self.manifests:
            yield Step("apply", (one,)) if one is not None else Step("delete", kind=self.kind, name=self.name)

    async def play(self, run: ScenarioRun, operator: Any, settings: Mapping[str, Any]) -> None:
        """Play the sequence in a run; an object that is refused adds `REFUSED` to the trace.

        Args:
            run: The run.
            operator: A factory of the operator, or an operator.
            settings: Settings of the operator.
        """
        await run.operator(operator, settings=settings)
        for one in self.manifests:
            if one is None:
                if self.manifests[0] is not None:
                    await run.delete(self.kind, self.name)
            else:
                try:
                    await run.apply(one)
                except AssertionError:
                    run.note(REFUSED)
            await run.settled()


def sequences_of(
    kind: type[Resource],
    base: Mapping[str, Any],
    *,
    vary: Sequence[str] = (),
    values: Mapping[str, SearchStrategy[Any]] | None = None,
    steps: int = 4,
    definition: Mapping[str, Any],
) -> SearchStrategy[ChangeSequence]:
    """Return a strategy for sequences of changes of one object.

    The first manifest is `base`. Each later one sets a field of `spec` to a random value, removes an optional field,
    returns to `base`, or deletes the object; the one after a deletion creates it again.

    Args:
        kind: The class of the object.
        base: A valid manifest.
        vary: The fields of `spec` that change, in wire names; all if empty.
        values: Strategies for the values of fields, as for `steersman.testing.conversion.objects`.
        steps: Most manifests of a sequence.
        definition: The CustomResourceDefinition; manifests that it refuses are not generated.

    Raises:
        ValueError: A name in `vary` or `values` is no field of the class.
    """
    from hypothesis import strategies as st

    fields, required = spec_fields(kind, values)
    if unknown := sorted(set(vary) - set(fields)):
        raise ValueError(f"vary: {kind.__name__} has no field spec.{unknown[0]}; the fields are {', '.join(fields)}")
    names = tuple(name for name in fields if not vary or name in vary)
    validity = _Validity(definition, info_of(kind).version)
    kind_text = f"{info_of(kind).kind}.{info_of(kind).group}"

    @st.composite
    def sequence(draw: Any) -> ChangeSequence:
        manifests: list[Mapping[str, Any] | None] = [base]
        for _ in range(draw(st.integers(0, steps - 1))):
            before = manifests[-1]
            change = draw(st.sampled_from(("set", "unset", "base", "delete")))
            if before is None or change == "base":
                after: Mapping[str, Any] | None = base
            elif change == "delete":
                after = None
            else:
                name = draw(st.sampled_from(names))
                value = draw(fields[name]) if change == "set" or name in required else _UNSET
                after = _with(before, name, value)
            if after == before or not validity.accepts(after, before):
                continue
            manifests.append(after)
        return ChangeSequence(kind_text, tuple(manifests))

    return sequence()


def _with(manifest: Mapping[str, Any], name: str, value: Any) -> Mapping[str, Any]:
    before: dict[str, Any] = manifest.get("spec") or {}
    spec = {key: one for key, one in before.items() if key != name}
    return {**manifest, "spec": spec if value is _UNSET else {**spec, name: value}}


class _NothingStored(Reader):
    """A cluster without objects."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        return None

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]:
        return ()


class _Validity:
    """Whether the API server accepts an object, by the schema and the CEL rules of its definition."""

    def __init__(self, definition: Mapping[str, Any], version: str) -> None:
        (found,) = (one for one in definition["spec"]["versions"] if one["name"] == version)
        self._strategy = CustomStrategy(cast(Object, definition), found)
        self._context = WriteContext(User("generator"), "2030-01-01T00:00:00Z", _NothingStored(), lambda n: "x" * n)

    def accepts(self, obj: Mapping[str, Any] | None, old: Mapping[str, Any] | None) -> bool:
        """Return whether the object is valid, as a new one or as the next state of an old one."""
        if obj is None:
            return True
        after = self._defaulted(obj)
        if old is None:
            return not self._strategy.validate_create(after, self._context)
        return not self._strategy.validate_update(after, self._defaulted(old), self._context)

    def _defaulted(self, obj: Mapping[str, Any]) -> Object:
        found = copy.deepcopy(dict(obj))
        self._strategy.default(found)
        return found
