"""The documentation keeps the rules of hack/prose; vale reads the same rules."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "hack"))

import prose  # noqa: E402

RULES: Final = prose.rules()


def test_the_documentation_keeps_the_rules() -> None:
    found = [
        str(finding)
        for page in prose.PAGES
        for finding in prose.findings(str(page.relative_to(ROOT)), page.read_text(), RULES)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("The pods are ready.", "Write 'Pod' instead of 'pods'."),
        ("A kubernetes cluster.", "Write 'Kubernetes' instead of 'kubernetes'."),
        ("Utilize the cache.", "Write 'use' instead of 'Utilize'."),
        ("Simply run it.", "Leave out 'Simply'."),
        ("Whoever reads it.", "Give the sentence a noun as its subject instead of 'Whoever'."),
        ("The server complains.", "Things do not act like people: 'complains'."),
        ("The the cache.", "'The the' is repeated."),
    ],
)
def test_a_sentence_that_breaks_a_rule_is_found(text: str, message: str) -> None:
    (finding,) = prose.findings("page.md", f"# Title\n\n{text}\n", RULES)
    assert (finding.line, finding.message) == (3, message)


@pytest.mark.parametrize(
    "text",
    [
        "`kubectl get pods` lists Pods.",
        "```console\n$ kubectl get pods\n```",
        "[Pods](pods.md) run.",
        "<!-- Generated -->\n\nSimply run it.",
        "The kube-apiserver of k8s.io.",
    ],
)
def test_code_links_and_generated_pages_are_not_prose(text: str) -> None:
    assert prose.findings("page.md", text, RULES) == ()


@pytest.mark.skipif(shutil.which("vale") is None, reason="needs vale")
def test_vale_finds_nothing_either() -> None:
    command = ["vale", "--config", "hack/prose/vale.ini", "README.md", "docs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
