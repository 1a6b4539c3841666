"""The namespace of a `Context`'s reads that name none."""

from types import SimpleNamespace

import pytest

from steersman import ALL_NAMESPACES, Context, ObjectMeta
from steersman.k8s import ConfigMap, Node, Pod


class NamespaceReader:
    """Returns the namespace that a read would go to."""

    def get(self, view, key):
        return key.namespace

    def list(self, view, namespace, labels, owner, index):
        return namespace


def context(**where):
    return Context(SimpleNamespace(log=None), NamespaceReader(), **where)


def test_a_reconcile_reads_in_the_namespace_of_its_object():
    ctx = context(owner=ConfigMap(metadata=ObjectMeta(name="a", namespace="shop")))
    assert ctx.list(Pod) == "shop"
    assert ctx.get(Pod, "web") == "shop"
    assert ctx.list(Pod, namespace="other") == "other"


def test_a_mapper_reads_in_the_namespace_of_the_changed_object():
    assert context(namespace="shop").list(Pod) == "shop"


def test_all_namespaces_are_read_only_by_name():
    assert context(namespace="shop").list(Pod, namespace=ALL_NAMESPACES) == ""


@pytest.mark.parametrize("where", [{}, {"owner": Node(metadata=ObjectMeta(name="node-1"))}])
def test_without_a_namespace_a_read_of_a_namespaced_kind_is_refused(where):
    ctx = context(**where)
    with pytest.raises(ValueError, match="Pod is namespaced"):
        ctx.list(Pod)
    with pytest.raises(ValueError, match="Pod is namespaced"):
        ctx.get(Pod, "web")
    assert ctx.get(Node, "node-1") == ""
