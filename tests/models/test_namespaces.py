"""The rule of `namespace=`: a default, a name, or `ALL_NAMESPACES`."""

import pytest

from steersman.models import ALL_NAMESPACES, dynamic

POD = dynamic("v1", "Pod").info
NODE = dynamic("v1", "Node", namespaced=False).info


def test_one_object_is_in_the_named_or_the_default_namespace():
    assert POD.object_namespace("shop", "home") == "shop"
    assert POD.object_namespace(None, "home") == "home"


def test_cluster_scoped_kinds_ignore_the_namespace():
    assert NODE.object_namespace("shop", "home") == ""
    assert NODE.list_namespace("", "") == ""


@pytest.mark.parametrize("namespace", ["", ALL_NAMESPACES])
def test_one_object_is_not_in_all_namespaces(namespace):
    with pytest.raises(ValueError, match="Pod is namespaced"):
        POD.object_namespace(namespace, "home")


def test_a_list_reads_all_namespaces_only_if_it_says_so():
    assert POD.list_namespace(ALL_NAMESPACES, "home") == ""
    assert POD.list_namespace(None, "home") == "home"
    with pytest.raises(ValueError, match="ALL_NAMESPACES"):
        POD.list_namespace("", "home")


def test_a_list_without_a_default_needs_a_namespace():
    with pytest.raises(ValueError, match="pass one, or ALL_NAMESPACES"):
        POD.list_namespace(None, "")
