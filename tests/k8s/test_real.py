"""Everything that a fresh API server holds, read and written back."""

import json
from typing import Any

import pytest

from steersman.k8s._index import KINDS
from steersman.models import decode, encode, info_of, lookup

NOT_LISTED = {
    "Binding",
    "Eviction",
    "LocalSubjectAccessReview",
    "Scale",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "SubjectAccessReview",
    "TokenRequest",
    "TokenReview",
}
"""Kinds that can only be created, or that are served as sub-resources of others."""


def without_absent(value: Any) -> Any:
    """Return an object without managed fields, and without empty and null values."""
    if isinstance(value, dict):
        kept = {k: without_absent(v) for k, v in value.items() if k != "managedFields"}
        return {k: v for k, v in kept.items() if v not in (None, {}, [])}
    if isinstance(value, list):
        return [without_absent(v) for v in value]
    return value


@pytest.mark.realcluster
def test_every_object_of_a_real_api_server_round_trips(control_plane: Any):
    seen = 0
    for api_version, kind in sorted(KINDS):
        if kind in NOT_LISTED:
            continue
        cls = lookup(api_version, kind)
        assert cls is not None
        for item in control_plane.call("GET", info_of(cls).path(None))["items"] or ():
            served = {**item, "apiVersion": api_version, "kind": kind}
            again = json.loads(encode(decode(cls, json.dumps(served).encode())))
            assert without_absent(again) == without_absent(served), f"{kind} {item['metadata']['name']}"
            seen += 1
    assert seen > 100
