"""The whole story over real HTTP: the application runs as a process of the embedded cluster's node."""

import pytest
from rich.console import Console

from .support import PROJECT


@pytest.mark.slow
def test_welcome_to_kubernetes_becomes_welcome_to_operators(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "demo"))
    import story

    console = Console(record=True, width=200)
    with story.cluster_with_processes() as cluster:
        assert story.tell(cluster, console), console.export_text()
    text = console.export_text()
    assert text.index("GET / → Welcome to Kubernetes!") < text.index("GET / → Welcome to Operators!")
