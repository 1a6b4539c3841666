"""Generates the models of the built-in kinds, `src/steersman/k8s/`, from OpenAPI v3 and aggregated discovery.

`steersman models` generates models from CustomResourceDefinitions with the same modules.
"""

from __future__ import annotations

import json
from pathlib import Path

from codegen.sources import api_documents, discovery_documents
from steersman.models.codegen import (
    ModuleDef,
    facts_of,
    modules_from_openapi,
    render_facts,
    render_index,
    render_module,
    render_stub,
)

__all__ = ["generate"]

TARGET = Path("src/steersman/k8s")
PACKAGE = "steersman.k8s"
PREFERRED = ("core_v1", "apps_v1", "batch_v1", "autoscaling_v2", "rbac_v1", "networking_v1")
"""The modules whose names win when several modules have a class of the same name and rank."""


def public_names(modules: list[ModuleDef]) -> dict[str, str]:
    """Return a unique public name for each class.

    Kinds come before other types and the core group before other groups; a later class of the same name is prefixed
    with its module, such as `EventsV1Event`.
    """

    def rank(module: ModuleDef, name: str) -> tuple[bool, int, str]:
        cls = module.classes.get(name)
        short = module.path.rpartition(".")[2]
        place = PREFERRED.index(short) if short in PREFERRED else len(PREFERRED)
        return (cls is None or cls.resource is None, place, short)

    owners: dict[str, list[ModuleDef]] = {}
    for module in modules:
        for name in (*module.classes, *module.reexports):
            owners.setdefault(name, []).append(module)
    names: dict[str, str] = {}
    for name, candidates in owners.items():
        first, *others = sorted(candidates, key=lambda m: rank(m, name))
        names[name] = f"{first.path.rpartition('.')[2]}:{name}"
        for module in others:
            short = module.path.rpartition(".")[2]
            names["".join(p.title() for p in short.split("_")) + name] = f"{short}:{name}"
    return names


def generate() -> dict[Path, bytes]:
    """Return the modules of `steersman.k8s`, by path."""
    documents = [json.loads(document) for document in api_documents().values()]
    modules = modules_from_openapi(documents, discovery_documents(), package=PACKAGE)
    files = {f"{m.path.rpartition('.')[2]}.py": render_module(m) for m in modules}
    names = public_names(modules)
    kinds: dict[tuple[str, str], tuple[str, str]] = {}
    for module in modules:
        for cls in module.classes.values():
            if (info := cls.resource) is not None:
                version = f"{info.group}/{info.version}" if info.group else info.version
                kinds[version, info.kind] = (module.path.rpartition(".")[2], cls.ref.name)
    files["_index.py"] = render_index(names, kinds)
    definitions = {name: schema for d in documents for name, schema in d["components"]["schemas"].items()}
    files["_facts.py"] = render_facts(facts_of(modules, definitions))
    files["__init__.pyi"] = render_stub(names, [m.path.rpartition(".")[2] for m in modules], PACKAGE)
    return {TARGET / name: content.encode() for name, content in files.items()}
