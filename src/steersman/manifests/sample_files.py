"""The files of `config/samples`: one for every version of the operator's kinds, until the user edits it.

The first line has a digest of the rest. A file with a valid digest was not edited, and is written again when its kind
changes. Other files are not changed, and a version that has an object in one of them gets no generated sample.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steersman import documents
from steersman.manifests.samples import sample
from steersman.manifests.yaml import to_yaml

__all__ = ["SAMPLES", "is_unedited", "sample_file", "sample_files"]

SAMPLES: Final = "samples"
_FIRST_LINE: Final = "# Made by `steersman manifests` from the required fields ({}). Once it is edited, it is yours.\n"
_PATTERN: Final = re.compile(re.escape(_FIRST_LINE).replace(r"\{\}", "([0-9a-f]{16})"))
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MAX_BYTES: Final = 1 << 20


def sample_file(group: str, version: str, kind: str) -> str:
    """Return the file name of a sample: `batch_v1_cronjob.yaml` for a CronJob of batch.example.com/v1."""
    first = group.partition(".")[0].replace("-", "_")
    return f"{first}_{version}_{kind.lower()}.yaml"


def sample_files(crds: Iterable[Mapping[str, Any]], directory: Path) -> tuple[dict[str, str], list[str]]:
    """Return the samples by file name, and the names of all files with objects; `directory` has the samples.

    Raises `OSError` for files that cannot be read.
    """
    written = dict(_written(directory))
    taken = {key for keys in written.values() for key in keys}
    made: dict[str, str] = {}
    for crd in crds:
        spec = crd["spec"]
        kind = spec["names"]["kind"]
        for version in spec["versions"]:
            name = sample_file(spec["group"], version["name"], kind)
            if name in made:  # the name of another group that begins with the same word
                name = f"{spec['group']}_{version['name']}_{kind.lower()}.yaml"
            if version["served"] and (f"{spec['group']}/{version['name']}", kind) not in taken and name not in written:
                made[name] = _signed(to_yaml(sample(crd, version["name"])))
    return made, sorted([*made, *(name for name, keys in written.items() if keys)])


def is_unedited(text: str) -> bool:
    """Return whether the text is an unedited sample."""
    line, end, rest = text.partition("\n")
    found = _PATTERN.fullmatch(line + end)
    return found is not None and found[1] == _digest(rest)


def _signed(text: str) -> str:
    return _FIRST_LINE.format(_digest(text)) + text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _written(directory: Path) -> Iterator[tuple[str, set[tuple[str, str]]]]:
    """Yield the edited files, each with the API versions and kinds of its objects."""
    for file in sorted(directory.glob("*")) if directory.is_dir() else ():
        if file.suffix in _SUFFIXES and file.is_file():
            text = file.read_bytes()[:_MAX_BYTES].decode(errors="replace")
            if not is_unedited(text):
                yield file.name, set(_objects(text))


def _objects(text: str) -> Iterator[tuple[str, str]]:
    try:
        found = list(documents.load_all(text))
    except (yaml.YAMLError, ValueError):
        return
    for document in found:
        body = document.value
        if isinstance(body, dict):
            named = cast("dict[str, Any]", body)
            api_version = str(named.get("apiVersion") or "")
            if api_version and not api_version.startswith("kustomize.config.k8s.io/"):
                yield api_version, str(named.get("kind") or "")
