"""`steersman migrate-storage`: stores every object of a CRD in the storage version, and drops the other versions.

Each object is written once without a change and with its resourceVersion as an optimistic lock, so that the API server
stores it again and no concurrent write is lost. Objects that were changed or deleted meanwhile need no write. After
that, `status.storedVersions` is trimmed. A progress file lets the next run continue after an interruption.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from steersman.cli.operator_loader import LoadError, load_operator
from steersman.models import ALL_NAMESPACES

if TYPE_CHECKING:
    from steersman.client import Client
    from steersman.models import Dynamic, PartialObjectMetadata, View

__all__ = ["Migration", "migrate_storage"]

PAGE = 500
MAX_CONCURRENT_REQUESTS = 8
"""The maximum number of concurrent requests."""
MAX_LISTED_FAILURES = 10
"""The maximum number of failed objects in the output."""


@dataclass
class Migration:
    """The result of the migration of one CRD."""

    crd: str
    storage_version: str
    stored_versions: list[str]
    """The stored versions at the end."""
    objects: int = 0
    """The number of checked objects, including those before an interruption."""
    written: int = 0
    failed: list[str] = field(default_factory=list[str])
    trimmed: list[str] = field(default_factory=list[str])
    """Versions that were removed from `status.storedVersions`; with a dry run, that would be removed."""
    dry_run: bool = False


def migrate_storage(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="MODULE:OPERATOR|CRD…", help="An operator (all its CRDs), or names of CRDs."),
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send every write as a dry run: nothing is stored.")
    ] = False,
    kubeconfig: Annotated[str | None, typer.Option(help="Kubeconfig file.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    page: Annotated[int, typer.Option(min=1, max=5000, help="Objects per page of a list.")] = PAGE,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start from the beginning instead of continuing an interrupted run.")
    ] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Store every object in the storage version of its CRD, then drop older versions from `status.storedVersions`.

    Run this before you remove a version from a CRD. Conversion webhooks must be running. After an interruption the next
    run continues. Exits with 1 when an object could not be written; nothing is trimmed then.
    """
    from steersman.client import Client
    from steersman.client.config import load_config

    names = _names(targets)
    config = load_config(kubeconfig, context)

    async def go() -> list[Migration]:
        async with Client.from_config(config) as client:
            states = _states() / hashlib.sha256(config.server.encode()).hexdigest()[:16]
            with _progress(output) as show:
                return [
                    await migrate(client, name, page, states, show, dry_run=dry_run, restart=restart) for name in names
                ]

    found = asyncio.run(go())
    if output == "json":
        typer.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        for each in found:
            typer.echo(_summary(each))
    if any(each.failed for each in found):
        raise typer.Exit(1)


def _names(targets: Iterable[str]) -> list[str]:
    names: list[str] = []
    for target in targets:
        if ":" in target:
            from steersman.manifests.config_directory import crds

            found = [str(crd["metadata"]["name"]) for crd in crds(load_operator(target))]
            if not found:
                raise LoadError(f"{target} has no CRDs")
            names += found
        elif "." in target:
            names.append(target)
        else:
            raise LoadError(f"{target!r} is neither MODULE:OPERATOR nor the name of a CRD, such as widgets.example.com")
    return list(dict.fromkeys(names))


def _summary(done: Migration) -> str:
    would = "would be " if done.dry_run else ""
    if done.failed:
        more = len(done.failed) - MAX_LISTED_FAILURES
        lines = [f"{done.crd}: {len(done.failed)} of {done.objects} objects could not be written:"]
        lines += [f"  {problem}" for problem in done.failed[:MAX_LISTED_FAILURES]]
        return "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])])
    if not done.trimmed:
        return f"{done.crd}: every object is stored as {done.storage_version} already"
    gone = ", ".join(done.trimmed)
    objects, are = ("1 object", "is ") if done.objects == 1 else (f"{done.objects} objects", "are ")
    return (
        f"{done.crd}: {objects} {would or are}stored as {done.storage_version}; {gone} "
        f"{would or 'is '}dropped from status.storedVersions"
    )


ShowProgress = Callable[[str, int, int], None]
"""Receives a CRD, the number of processed objects, and their total."""


async def migrate(
    client: Client, name: str, page: int, states: Path, show: ShowProgress, *, dry_run: bool, restart: bool
) -> Migration:
    """Migrate one CRD. Raises `LoadError` if it is missing or changes meanwhile, and errors of the client."""
    crd = await _crd(client, name)
    storage = next(v["name"] for v in crd["spec"]["versions"] if v["storage"])
    status: dict[str, Any] = crd.get("status") or {}
    stored: list[str] = list(status.get("storedVersions") or ())
    done = Migration(name, storage, stored, dry_run=dry_run)
    if stored == [storage]:
        return done
    state = State(states / f"{name}.json", f"{crd['metadata']['uid']}/{storage}", keep=not dry_run)
    token, done.objects = ("", 0) if restart else state.read()
    await _rewrite(client, crd, storage, token, page, done, state, show)
    if not done.failed:
        done.trimmed = [version for version in stored if version != storage]
        if not dry_run:
            await _trim_stored_versions(client, crd, storage, stored)
            done.stored_versions = [storage]
        state.forget()
    return done


async def _crd(client: Client, name: str) -> dict[str, Any]:
    from steersman.client.errors import NotFound
    from steersman.models import dynamic

    try:
        found = await client.get(dynamic("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False), name)
    except NotFound:
        raise LoadError(f"the cluster has no CRD {name}", 1) from None
    return cast("dict[str, Any]", found.body)


async def _rewrite(
    client: Client,
    crd: dict[str, Any],
    storage: str,
    token: str,
    page: int,
    done: Migration,
    state: State,
    show: ShowProgress,
) -> None:
    from steersman.client.errors import Expired
    from steersman.models import dynamic, metadata_of

    spec = crd["spec"]
    names = spec["names"]
    served = next((v["name"] for v in spec["versions"] if v["name"] == storage and v["served"]), None)
    version = served or next((v["name"] for v in spec["versions"] if v["served"]), None)
    if version is None:
        raise LoadError(f"{done.crd} serves no version, so that its objects cannot be read", 1)
    api_version = f"{spec['group']}/{version}"
    view = dynamic(api_version, names["kind"], plural=names["plural"], namespaced=spec["scope"] == "Namespaced")
    slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
    while True:
        try:
            found = await client.list(metadata_of(view), namespace=ALL_NAMESPACES, limit=page, continue_=token)
        except Expired as expired:
            # New objects have the storage version, so the list need not be consistent.
            token = expired.status.metadata.continue_
            if not token:
                done.objects = 0
            continue
        total = done.objects + len(found.items) + (found.remaining or 0)
        problems = await asyncio.gather(
            *(_write(client, view, each, slots, dry_run=done.dry_run) for each in found.items)
        )
        done.failed += [problem for problem in problems if problem]
        done.objects += len(found.items)
        done.written += sum(problem is None for problem in problems)
        show(done.crd, done.objects, total)
        token = found.continue_
        if not token:
            return
        if not done.failed:
            state.write(token, done.objects)


async def _write(
    client: Client, view: View[Dynamic], each: PartialObjectMetadata, slots: asyncio.Semaphore, *, dry_run: bool
) -> str | None:
    """Store one object unchanged; returns `None` after the write, `""` if no write was needed, else the error."""
    from steersman.client.errors import ApiError, Conflict, NotFound
    from steersman.models import MergePatch, key_of

    metadata = each.metadata
    same = MergePatch({"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}})
    async with slots:
        try:
            await client.patch(view, metadata.name, same, namespace=metadata.namespace, want="version", dry_run=dry_run)
        except (Conflict, NotFound):
            return ""
        except ApiError as problem:
            if problem.code == 401:
                raise
            return f"{key_of(each)}: {problem}"
    return None


async def _trim_stored_versions(client: Client, crd: dict[str, Any], storage: str, stored: list[str]) -> None:
    from steersman.client.errors import Conflict, Invalid
    from steersman.models import JsonPatch, dynamic

    view = dynamic("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)
    name = crd["metadata"]["name"]
    for _ in range(5):
        now = await _crd(client, name)
        if next(v["name"] for v in now["spec"]["versions"] if v["storage"]) != storage:
            raise LoadError(f"the storage version of {name} changed during the migration: run the command again", 1)
        patch = JsonPatch().test("/metadata/resourceVersion", now["metadata"]["resourceVersion"])
        patch = patch.test("/status/storedVersions", stored).replace("/status/storedVersions", [storage])
        try:
            await client.patch(view, name, cast("Any", patch), subresource="status")
        except (Conflict, Invalid):
            if list(now["status"]["storedVersions"]) != stored:
                raise LoadError(
                    f"status.storedVersions of {name} changed during the migration: run the command again", 1
                ) from None
        else:
            return
    raise LoadError(f"{name} changes all the time: its storedVersions could not be trimmed; try again", 1)


class State:
    """The progress of a migration in a file; a file of another CRD or storage version is ignored."""

    def __init__(self, path: Path, identity: str, *, keep: bool) -> None:
        self._path = path
        self._identity = identity
        self._keep = keep

    def read(self) -> tuple[str, int]:
        """Return the continue token of the next list, and the number of processed objects."""
        if not self._keep:
            return "", 0
        try:
            held = json.loads(self._path.read_text(encoding="utf-8"))
            if held["identity"] == self._identity:
                return str(held["continue"]), int(held["objects"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return "", 0

    def write(self, token: str, objects: int) -> None:
        if self._keep:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"identity": self._identity, "continue": token, "objects": objects})
            new = self._path.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.replace(self._path)

    def forget(self) -> None:
        if self._keep:
            self._path.unlink(missing_ok=True)


def _states() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steersman" / "migrations"


class _progress:  # noqa: N801 - used as a function
    """Shows a progress bar on stderr if it is a terminal."""

    def __init__(self, output: str) -> None:
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        if output == "text" and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> ShowProgress:
        if self._bar is not None:
            self._bar.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _show(self, name: str, done: int, total: int) -> None:
        if self._bar is not None:
            if name not in self._tasks:
                self._tasks[name] = self._bar.add_task(name, total=total)
            self._bar.update(self._tasks[name], completed=done, total=total)
