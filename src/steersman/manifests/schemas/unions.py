"""Unions of models with a tag: one object with a discriminator that decides which fields may be set.

A structural schema has one set of properties, so that of a union has those of all members; CEL rules define which
belong together. Two members may have the same field if it has the same schema in both.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from steersman.manifests.errors import Origin, Problems
from steersman.manifests.schemas.node import Node, copy_of, render
from steersman.manifests.schemas.rules import cel_name

__all__ = ["tagged_union"]


def tagged_union(members: list[type[msgspec.Struct]], nodes: list[Node], origin: Origin, problems: Problems) -> Node:
    """Return the schema of a union of tagged structs."""
    configs = [m.__struct_config__ for m in members]
    fields = {c.tag_field for c in configs}
    if len(fields) != 1 or None in fields or any(not isinstance(c.tag, str) for c in configs):
        names = " | ".join(m.__name__ for m in members)
        problems.add(origin, f'{names}: give each of them a tag, as in class A(Model, tag_field="type", tag="A")')
        return Node({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, origin)
    tag_field = str(configs[0].tag_field)
    tags = [str(c.tag) for c in configs]
    union = Node({"type": "object"}, origin, required=[tag_field])
    union.properties[tag_field] = Node({"type": "string", "enum": tags}, origin)
    for member, node in zip(members, nodes, strict=True):
        for name, child in node.properties.items():
            if name == tag_field:
                continue
            child = copy_of(child, child.origin)
            child.keywords.pop("default", None)  # it would also apply to the other members
            known = union.properties.get(name)
            if known is None:
                union.properties[name] = child
            elif render(known, 0) != render(child, 0):
                problems.add(
                    child.origin, f"{member.__name__}.{name} has a different schema in another member of the union"
                )
        union.names |= node.names
    for tag, node in zip(tags, nodes, strict=True):
        union.rules += _rules(union, tag_field, tag, node)
    return union


def _rules(union: Node, tag_field: str, tag: str, node: Node) -> list[dict[str, Any]]:
    own = [name for name in node.properties if name != tag_field]
    needed = [name for name in own if name in node.required]
    foreign = [name for name in union.properties if name != tag_field and name not in own]
    is_other = f"self.{cel_name(tag_field)} != {json.dumps(tag)}"
    rules: list[dict[str, Any]] = []
    if needed:
        test = " && ".join(f"has(self.{cel_name(name)})" for name in needed)
        verb = "are" if len(needed) > 1 else "is"
        message = f"{', '.join(needed)} {verb} required when {tag_field} is {tag}"
        rules.append({"rule": f"{is_other} || ({test})", "message": message})
    if foreign:
        test = " && ".join(f"!has(self.{cel_name(name)})" for name in foreign)
        message = f"{', '.join(foreign)} may not be set when {tag_field} is {tag}"
        rules.append({"rule": f"{is_other} || ({test})", "message": message})
    # The rules of a member apply only to it.
    return rules + [{**rule, "rule": f"{is_other} || ({rule['rule']})"} for rule in node.rules]
