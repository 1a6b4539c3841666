"""Source code of models from OpenAPI v3 documents and CustomResourceDefinitions.

The engine behind `steersman.k8s`, usable for any third-party CRD: documents go in, Python modules come out as
text, the same bytes every time. It reads and writes no files and imports nothing of what it generates.
"""

from steersman.models.codegen.builder import Builder, CodegenError
from steersman.models.codegen.crd import files_from_crds, modules_from_crds
from steersman.models.codegen.facts import facts_of, render_facts
from steersman.models.codegen.ir import ClassDef, FieldDef, ModuleDef, Ref, ResourceDef
from steersman.models.codegen.openapi import modules_from_openapi
from steersman.models.codegen.render import render_index, render_module, render_stub

__all__ = [
    "Builder",
    "ClassDef",
    "CodegenError",
    "FieldDef",
    "ModuleDef",
    "Ref",
    "ResourceDef",
    "facts_of",
    "files_from_crds",
    "modules_from_crds",
    "modules_from_openapi",
    "render_facts",
    "render_index",
    "render_module",
    "render_stub",
]
