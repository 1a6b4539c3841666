"""Scenarios in files, for explorations without pytest.

A file of manifests is a scenario with two steps: all objects are applied, then the custom objects are deleted. A file
with `steps` lists its steps:

    settings: {finalizer_timeout: 30}
    steps:
    - apply: sample.yaml            # a file in the same directory, an object, or a list of them
    - apply: {apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {replicas: 2}}
      settle: false                 # the next step begins without a wait
    - wait: 30s
    - delete: App.example.com/a
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steersman import documents
from steersman.manifest_files import ManifestError, parse
from steersman.operator.settings.values import parse_duration
from steersman.testing.explore.findings import is_custom
from steersman.testing.explore.scenario_run import ScenarioRun

__all__ = ["FileScenario", "ScenarioError", "Step", "read_scenario"]

Objects = list[dict[str, Any]]

_LIMITS: Final = documents.Limits(bytes=1 << 20, depth=100, values=50_000)
MAX_STEPS: Final = 200
"""Most steps of a scenario."""
_FIELDS: Final = frozenset({"settings", "replicas", "namespace", "steps"})
_ACTIONS: Final = ("apply", "delete", "wait")


class ScenarioError(ValueError):
    """The file of a scenario is invalid; the message names the file, the step and the field."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: objects to apply, one to delete, or virtual time that passes.

    Args:
        action: `apply`, `delete` or `wait`.
        objects: The objects to apply.
        kind: The kind of the object to delete, with its group: `App.example.com`.
        name: The name of the object to delete.
        namespace: Its namespace; that of the scenario if empty.
        seconds: Virtual seconds that pass.
        settle: Whether the step ends when the cluster has settled.
    """

    action: str
    objects: Sequence[Mapping[str, Any]] = ()
    kind: str = ""
    name: str = ""
    namespace: str = ""
    seconds: float = 0.0
    settle: bool = True


@dataclass(frozen=True, slots=True)
class FileScenario:
    """A scenario of steps from a file. Bind it to an operator with `of`."""

    steps: tuple[Step, ...]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    replicas: int = 1
    namespace: str | None = None

    async def run(self, run: ScenarioRun, operator: Any) -> None:
        """Perform the steps in a run.

        Args:
            run: The run.
            operator: A factory of the operator, or an operator.
        """
        await run.operator(operator, replicas=self.replicas, settings=self.settings)
        for step in self.steps:
            match step.action:
                case "apply":
                    await run.apply(*step.objects, namespace=self.namespace)
                case "delete":
                    await run.delete(step.kind, step.name, namespace=step.namespace or self.namespace)
                case _:
                    await run.passes(step.seconds)
            if step.settle:
                await run.settled()


def read_scenario(path: Path) -> FileScenario:
    """Return the scenario of a file.

    Args:
        path: A file of manifests, or one with `steps`.

    Raises:
        ScenarioError: The file cannot be read, or a field is wrong.
    """
    text = _text(path)
    try:
        found = [one.value for one in documents.load_all(text, limits=_LIMITS) if one.value is not None]
    except yaml.YAMLError as problem:
        raise ScenarioError(f"{path}: {problem}") from None
    if len(found) == 1 and isinstance(found[0], dict) and "steps" in found[0]:
        return _of_steps(cast("dict[str, Any]", found[0]), path)
    objects = _parsed(text, path)
    if not objects:
        raise ScenarioError(f"{path}: there is no object and no `steps`; write manifests, or a list of steps")
    custom = [one for one in objects if is_custom(_resource(one))] or objects
    return FileScenario((
        Step("apply", objects),
        *(_deletion(one, settle=index == len(custom) - 1) for index, one in enumerate(custom)),
    ))  # fmt: skip


def _of_steps(found: dict[str, Any], path: Path) -> FileScenario:
    if unknown := sorted(set(found) - _FIELDS):
        raise ScenarioError(f"{path}: {unknown[0]!r} is unknown; the fields are {', '.join(sorted(_FIELDS))}")
    steps: Any = found["steps"]
    if not isinstance(steps, list) or not steps:
        raise ScenarioError(f"{path}: steps: a list of steps is expected")
    if len(cast("list[Any]", steps)) > MAX_STEPS:
        raise ScenarioError(f"{path}: steps: at most {MAX_STEPS} are allowed")
    settings: Any = found.get("settings") or {}
    if not isinstance(settings, dict):
        raise ScenarioError(f"{path}: settings: a mapping is expected")
    replicas: Any = found.get("replicas", 1)
    if not isinstance(replicas, int) or not 1 <= replicas <= 10:
        raise ScenarioError(f"{path}: replicas: a number from 1 to 10 is expected")
    namespace: Any = found.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        raise ScenarioError(f"{path}: namespace: a name is expected")
    read = tuple(
        _step(one, f"{path}: steps[{index}]", path.parent) for index, one in enumerate(cast("list[Any]", steps))
    )
    return FileScenario(read, cast("dict[str, Any]", settings), replicas, namespace)


def _step(given: Any, where: str, directory: Path) -> Step:
    if not isinstance(given, dict):
        raise ScenarioError(f"{where}: a mapping with one of {', '.join(_ACTIONS)} is expected")
    step = cast("dict[str, Any]", given)
    actions = [action for action in _ACTIONS if action in step]
    if len(actions) != 1 or set(step) - {*actions, "settle"}:
        raise ScenarioError(f"{where}: exactly one of {', '.join(_ACTIONS)} is expected, and perhaps `settle`")
    action = actions[0]
    value, settle = step[action], step.get("settle", action != "wait")
    if not isinstance(settle, bool):
        raise ScenarioError(f"{where}.settle: true or false is expected")
    match action:
        case "apply":
            items = cast("list[Any]", value) if isinstance(value, list) else [value]
            objects = [one for item in items for one in _objects(item, f"{where}.apply", directory)]
            return Step("apply", objects, settle=settle)
        case "delete":
            kind, slash, rest = str(value).partition("/")
            namespace, _, name = rest.rpartition("/")
            if not isinstance(value, str) or not (kind and slash and name) or "/" in namespace:
                raise ScenarioError(f"{where}.delete: KIND/NAME or KIND/NAMESPACE/NAME is expected, not {value!r}")
            return Step("delete", kind=kind, name=name, namespace=namespace, settle=settle)
        case _:
            try:
                return Step("wait", seconds=parse_duration(str(value)), settle=settle)
            except ValueError as problem:
                raise ScenarioError(f"{where}.wait: {problem}") from None


def _objects(item: Any, where: str, directory: Path) -> Objects:
    if isinstance(item, dict):
        found = cast("dict[str, Any]", item)
        if not isinstance(found.get("apiVersion"), str) or not isinstance(found.get("kind"), str):
            raise ScenarioError(f"{where}: an object needs apiVersion and kind")
        return [found]
    if not isinstance(item, str):
        raise ScenarioError(f"{where}: a file or an object is expected, not {item!r}")
    path = directory / item
    return _parsed(_text(path), path)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LIMITS.bytes + 1)
    except OSError as problem:
        raise ScenarioError(f"{path}: cannot be read: {problem.strerror}") from None
    if len(data) > _LIMITS.bytes:
        raise ScenarioError(f"{path}: longer than {_LIMITS.bytes} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: it is not UTF-8 text") from None


def _parsed(text: str, path: Path) -> Objects:
    try:
        return [one.body for one in parse(text, str(path))]
    except ManifestError as problem:
        raise ScenarioError(str(problem)) from None


def _resource(obj: Mapping[str, Any]) -> str:
    group, slash, _ = str(obj["apiVersion"]).partition("/")
    return f"{obj['kind']}.{group}" if slash else str(obj["kind"])


def _deletion(obj: Mapping[str, Any], *, settle: bool) -> Step:
    metadata = obj["metadata"]
    return Step("delete", kind=_resource(obj), name=metadata["name"], namespace=metadata.get("namespace", ""),
                settle=settle)  # fmt: skip
