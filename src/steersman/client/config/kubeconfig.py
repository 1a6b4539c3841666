"""Kubeconfig files: parsing, merging and selection of entries, like client-go.

For each entry, the first file that has it is used; `current-context` is taken from the first file that sets it.
Relative paths are relative to their file. Unknown fields are ignored. Only entries that are used are checked, so an
invalid user of another cluster does no harm. Errors name the file, the entry and the field, never a value.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from steersman.client.config.errors import ConfigError
from steersman.client.config.files import read_bytes

EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True)
class Entry:
    """A cluster, user or context, or a mapping inside one. Its methods raise `ConfigError` with the place."""

    kind: str
    name: str
    file: Path
    fields: Mapping[str, Any] = field(repr=False)
    path: str = ""
    exec_config: Any = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """The entry as errors name it: `user "admin"`."""
        return f'{self.kind} "{self.name}"'

    def error(self, problem: str, field: str = "", hint: str = "") -> ConfigError:
        """Return an error about a field of this entry."""
        return ConfigError(problem, source=str(self.file), entry=self.label, field=self.where(field), hint=hint)

    def where(self, name: str) -> str:
        """Return the path of a field within the entry."""
        return f"{self.path}.{name}" if self.path and name else self.path or name

    def text(self, name: str) -> str:
        """Return a string, "" if absent."""
        value = self.fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f"must be a string, not a {_shape(value)}", name)
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean, False if absent."""
        value = self.text(name)
        if value.lower() in ("true", "yes", "on"):
            return True
        if value.lower() in ("", "false", "no", "off"):
            return False
        raise self.error("must be true or false", name)

    def data(self, name: str) -> bytes | None:
        """Return decoded base64 data, None if absent or empty."""
        if not (value := self.text(name)):
            return None
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error("not valid base64", name, "encode the whole file, e.g. with base64 -w0") from None

    def file_path(self, name: str) -> Path | None:
        """Return a path, resolved against the directory of this entry's file; None if absent."""
        value = self.text(name)
        return self.file.parent / value if value else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings, empty if absent."""
        values = self.fields.get(name)
        if values is None:
            return ()
        if not isinstance(values, list):
            raise self.error(f"must be a list of strings, not a {_shape(values)}", name)
        items = cast("list[Any]", values)
        if not all(isinstance(item, str) for item in items):
            raise self.error("must be a list of strings", name)
        return tuple(items)

    def inner(self, name: str) -> Entry | None:
        """Return a mapping inside this entry, None if absent."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(f"must be a mapping, not a {_shape(value)}", name)
        return Entry(self.kind, self.name, self.file, cast("dict[str, Any]", value), self.where(name))

    def inners(self, name: str) -> tuple[Entry, ...]:
        """Return a list of mappings, empty if absent."""
        values = self.fields.get(name)
        if values is None:
            return ()
        if not isinstance(values, list):
            raise self.error(f"must be a list, not a {_shape(values)}", name)
        found: list[Entry] = []
        for index, value in enumerate(cast("list[Any]", values)):
            where = f"{self.where(name)}[{index}]"
            if not isinstance(value, dict):
                raise ConfigError(
                    f"must be a mapping, not a {_shape(value)}",
                    source=str(self.file),
                    entry=self.label,
                    field=where,
                )
            found.append(Entry(self.kind, self.name, self.file, cast("dict[str, Any]", value), where))
        return tuple(found)


@dataclass(frozen=True)
class Kubeconfig:
    """One kubeconfig file, or several merged ones. `files` are the files that were read."""

    files: tuple[Path, ...] = ()
    current_context: str = ""
    clusters: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    users: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    contexts: Mapping[str, Entry] = field(default_factory=dict[str, Entry])

    @property
    def empty(self) -> bool:
        """Whether there is no file with an entry."""
        return not (self.clusters or self.users or self.contexts or self.current_context)

    @property
    def source(self) -> str:
        """The files as errors name them."""
        return ":".join(str(file) for file in self.files)

    def context(self, name: str | None = None) -> Entry:
        """Return the context with this name, or the current one. Raises `ConfigError`."""
        wanted = name or self.current_context
        if not wanted:
            hint = f"run kubectl config use-context, or choose one of: {_names(self.contexts)}"
            raise ConfigError("no context is set", source=self.source, field="current-context", hint=hint)
        if (entry := self.contexts.get(wanted)) is None:
            hint = f"choose one of: {_names(self.contexts)}"
            place = "" if name else "current-context"
            problem = f'there is no context "{wanted}"'
            raise ConfigError(problem, source=self.source, field=place, hint=hint)
        return entry

    def cluster_of(self, context: Entry) -> Entry:
        """Return the cluster of a context. Raises `ConfigError`."""
        name = context.text("cluster")
        if not name:
            raise context.error("the context has no cluster", "cluster", f"add one of: {_names(self.clusters)}")
        if (entry := self.clusters.get(name)) is None:
            hint = f"choose one of: {_names(self.clusters)}"
            raise context.error(f'there is no cluster "{name}"', "cluster", hint)
        return entry

    def user_of(self, context: Entry) -> Entry | None:
        """Return the user of a context, None if it has none. Raises `ConfigError`."""
        if not (name := context.text("user")):
            return None
        if (entry := self.users.get(name)) is None:
            raise context.error(f'there is no user "{name}"', "user", f"choose one of: {_names(self.users)}")
        return entry


def load_kubeconfig(files: Sequence[Path], *, must_exist: bool = False) -> Kubeconfig:
    """Read and merge files. Missing files are skipped unless `must_exist`. Raises `ConfigError`."""
    loaded = [read_kubeconfig(file) for file in dict.fromkeys(files) if must_exist or file.exists()]
    return merge(loaded)


def merge(configs: Sequence[Kubeconfig]) -> Kubeconfig:
    """Merge kubeconfigs: the first one that has an entry or a current context takes precedence."""
    clusters: dict[str, Entry] = {}
    users: dict[str, Entry] = {}
    contexts: dict[str, Entry] = {}
    for config in reversed(configs):
        clusters.update(config.clusters)
        users.update(config.users)
        contexts.update(config.contexts)
    return Kubeconfig(
        files=tuple(file for config in configs for file in config.files),
        current_context=next((c.current_context for c in configs if c.current_context), ""),
        clusters=clusters,
        users=users,
        contexts=contexts,
    )


def read_kubeconfig(file: Path) -> Kubeconfig:
    """Read one file. Raises `ConfigError` if it cannot be read or is not a kubeconfig."""
    file = file.absolute()
    content = read_bytes(file, source=str(file))
    document = _parse(content, file, text_only=True)
    if document is None:
        return Kubeconfig(files=(file,))
    if not isinstance(document, dict):
        raise ConfigError(
            f"a kubeconfig must be a mapping, not a {_shape(document)}",
            source=str(file),
            hint="check the path",
        )
    top = Entry("file", file.name, file, cast("dict[str, Any]", document))
    if (kind := top.text("kind")) not in ("", "Config") or top.text("apiVersion") not in ("", "v1"):
        problem = f"not a kubeconfig of apiVersion v1 (kind {kind[:60]!r})"
        raise ConfigError(problem, source=str(file), field="kind", hint="check the path")
    clusters = _named(top, "clusters", "cluster")
    if clusters and EXEC_EXTENSION.encode() in content:
        clusters = _with_exec_config(clusters, _parse(content, file))
    return Kubeconfig(
        files=(file,),
        current_context=top.text("current-context"),
        clusters=clusters,
        users=_named(top, "users", "user"),
        contexts=_named(top, "contexts", "context"),
    )


def _parse(content: bytes, file: Path, *, text_only: bool = False) -> Any:
    # An operator in a cluster reads no kubeconfig, so the YAML parser is imported on demand.
    import yaml

    from steersman import documents

    try:
        return documents.load(content, scalars=documents.text_only if text_only else None)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        why = _QUOTED.sub("…", error.problem or "syntax error")
        raise ConfigError(f"not valid YAML{place}: {why}", source=str(file), hint="correct the file") from None
    except yaml.YAMLError:
        raise ConfigError("not valid YAML", source=str(file), hint="check the path") from None


def _named(top: Entry, plural: str, singular: str) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for item in top.inners(plural):
        name = item.text("name")
        if name in found:
            raise ConfigError(
                f'the name "{name}" occurs twice',
                source=str(top.file),
                field=plural,
                hint="remove one of the two",
            )
        inner = Entry(singular, name, top.file, item.fields).inner(singular)
        found[name] = Entry(singular, name, top.file, inner.fields if inner else {})
    return found


def _with_exec_config(clusters: Mapping[str, Entry], document: Any) -> dict[str, Entry]:
    """Return the clusters with the extension for exec plugins, whose values keep their types."""
    found: dict[str, Entry] = {}
    items = cast("list[dict[str, Any]]", document["clusters"])
    for entry, item in zip(clusters.values(), items, strict=True):
        cluster = cast("dict[str, Any]", item.get("cluster") or {})
        extensions = cluster.get("extensions")
        config = None
        for extension in cast("list[Any]", extensions) if isinstance(extensions, list) else ():
            if isinstance(extension, dict) and cast("dict[str, Any]", extension).get("name") == EXEC_EXTENSION:
                config = cast("dict[str, Any]", extension).get("extension")
        found[entry.name] = Entry(entry.kind, entry.name, entry.file, entry.fields, exec_config=config)
    return found


def _names(entries: Mapping[str, Entry]) -> str:
    return ", ".join(sorted(entries)) or "(there are none)"


def _shape(value: Any) -> str:
    match value:
        case dict():
            return "mapping"
        case list():
            return "list"
        case str():
            return "string"
        case _:
            return type(cast(object, value)).__name__
