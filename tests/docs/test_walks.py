"""Pages whose commands are followed literally: files written, commands run, output compared."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
sys.path.insert(0, str(ROOT / "hack"))

import walk  # noqa: E402


@dataclass(frozen=True)
class Walk:
    """The prerequisites of a page: programs, a directory of the repository, and commands."""

    needs: tuple[str, ...] = ("kubectl",)
    """Programs beside Python."""
    project: str = ""
    """The directory of the repository of which the reader has a copy."""
    before: str = ""
    """Commands that the page takes for granted."""
    new: bool = False
    """Whether the reader starts with nothing installed: `test_clean_walks.py` follows the page."""


CLUSTER: Final = """
steersman cluster start --detach >/dev/null || exit 1
export KUBECONFIG="$HOME/.local/state/steersman/clusters/default/kubeconfig"
"""
HELLOAPP: Final = CLUSTER + "steersman install helloapp:operator >/dev/null || exit 1\n"
CASKS: Final = (
    CLUSTER
    + """
steersman install cellar:operator >/dev/null || exit 1
steersman run cellar:operator >cellar.log 2>&1 &
cat > oak.yaml <<END
apiVersion: cellar.example.com/v1
kind: Cask
metadata: {name: first}
spec: {wood: oak}
END
sed s/oak/pine/ oak.yaml > cask.yaml
for second in $(seq 60); do grep -q webhooks_registered cellar.log && break; sleep 1; done
kubectl apply -f oak.yaml >/dev/null
"""
)
"""An operator with webhooks, a stored Cask, and a file with another wood."""
SITES: Final = (
    CLUSTER
    + """
steersman manifests sites:operator >/dev/null || exit 1
python - <<END
import pathlib, yaml
crd = yaml.safe_load(next(pathlib.Path("config/crd/bases").glob("*.yaml")).read_text())
for version in crd["spec"]["versions"]:
    version["storage"] = version["name"] == "v1alpha1"
pathlib.Path("before.yaml").write_text(yaml.safe_dump(crd))
site = "{apiVersion: example.com/v1alpha1, kind: Site, metadata: {name: %s}, spec: {address: 'localhost:80'}}"
pathlib.Path("sites.yaml").write_text("\\n---\\n".join(site % name for name in ("a", "b", "c")))
END
steersman cluster load before.yaml sites.yaml >/dev/null && steersman cluster load config/crd >/dev/null || exit 1
steersman run sites:operator >sites.log 2>&1 &
for second in $(seq 60); do grep -q conversion_registered sites.log && break; sleep 1; done
"""
)
"""Three Sites that are stored as v1alpha1, with the CRD that stores v1, and the operator that converts them."""
LOGGED: Final = """
steersman cluster start --detach --audit-log audit.log >/dev/null || exit 1
export KUBECONFIG="$HOME/.local/state/steersman/clusters/default/kubeconfig"
steersman cluster load config/crd config/rbac config/samples >/dev/null || exit 1
(steersman run helloapp:operator --as system:serviceaccount:demo-operator-system:demo-operator \\
    --lease-namespace demo-operator-system >run.log 2>&1 &)
kubectl wait --for=condition=Ready helloapp/helloapp-sample --timeout=100s >/dev/null || exit 1
sed 's/maximum: 100/maximum: 10/' config/crd/bases/*.yaml > new.yaml
cp config/crd/bases/*.yaml old.yaml
"""
"""A cluster with an audit log of the operator, and two versions of a CRD."""
WALKS: Final = {
    "tutorials/first-operator.md": Walk(new=True),
    "tutorials/helloapp.md": Walk(new=True),
    "tutorials/configmonitor.md": Walk(),
    "tutorials/sidecarset.md": Walk(),
    "tutorials/stateful.md": Walk(),
    "tutorials/cronjob.md": Walk(("kubectl", "git"), new=True),
    "how-to/debugging.md": Walk(("kubectl", "jq", "curl")),
    "how-to/from-kopf.md": Walk(new=True),
    "how-to/observability.md": Walk((), "operators/helloapp"),
    "how-to/other-languages.md": Walk(("kubectl", "jq", "go"), new=True),
    "how-to/upgrades.md": Walk((), "operators/helloapp", HELLOAPP),
    "conversion.md": Walk((), "", SITES),
    "deployment.md": Walk(("kubectl",), "operators/helloapp", HELLOAPP),
    "embedded-cluster.md": Walk(("kubectl",), "operators/helloapp"),
    "manifests.md": Walk((), "operators/helloapp"),
    "packaging.md": Walk((), "operators/helloapp", CLUSTER),
    "scaffolding.md": Walk(("make",)),
    "tools.md": Walk(("kubectl",), "operators/helloapp", LOGGED),
    "webhooks.md": Walk(("kubectl",), "", CASKS),
    "../README.md": Walk(new=True),
}
"""The pages that are followed, below docs/."""


def require(page: str) -> None:
    """Skip the test where a program is missing that the page needs."""
    missing = [name for name in WALKS[page].needs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    if "git" in WALKS[page].needs and not (ROOT / ".git").exists():
        pytest.skip("needs the git checkout, which the page clones")


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, told in WALKS.items() if not told.new])
def test_a_reader_can_follow_the_page(page: str, tmp_path: Path) -> None:
    require(page)
    told = WALKS[page]
    place = tmp_path / "work"
    if told.project:
        shutil.copytree(ROOT / told.project, place, ignore=shutil.ignore_patterns(".*_cache", "__pycache__"))
    else:
        place.mkdir()
    done = list(walk.walk(DOCS / page, place, walk.environment(tmp_path, clean=False), before=told.before))
    assert len(done) >= 1


def test_a_page_is_read_as_files_and_commands() -> None:
    page = """
```python title="file: a.py"
x = 1
```

```console title="not run: needs a registry"
$ push
```

```console
$ cat <<END
text
END
text
$ run &
```

```console title="second terminal"
$ look
…
found 3 of …
```
"""
    assert walk.steps(page) == (
        walk.File("a.py", "x = 1\n"),
        walk.Command("cat <<END\ntext\nEND", ("text",)),
        walk.Command("run &"),
        walk.Command("look", ("…", "found 3 of …"), "second"),
    )


@pytest.mark.parametrize(
    ("expected", "output", "missing"),
    [
        (["a  b"], "a b\nmore", ""),
        (["a", "c"], "a\nb\nc", "c"),
        (["a", "…", "c"], "a\nb\nc", ""),
        (["…", "passed…"], "1 failed", "passed…"),
        (["pod…Running"], "pod-x  1/1  Running", ""),
        (["a"], "", "a"),
    ],
)
def test_output_is_compared_line_by_line(expected: list[str], output: str, missing: str) -> None:
    assert walk.differs(expected, output) == missing


def test_a_page_whose_command_fails_cannot_be_followed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\none\n$ false\n```\n")
    with pytest.raises(walk.WalkError, match=r"\$ false\nended with exit code 1"):
        list(walk.walk(page, tmp_path, walk.environment(tmp_path, clean=False)))


def test_a_command_that_announces_its_exit_code_must_end_with_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```console title="exit code 3"\n$ (exit 3)\n```\n')
    (done,) = walk.walk(page, tmp_path, walk.environment(tmp_path, clean=False))
    assert done.code == 3
    page.write_text('```console title="exit code 3"\n$ true\n```\n')
    with pytest.raises(walk.WalkError, match="ended with exit code 0"):
        list(walk.walk(page, tmp_path, walk.environment(tmp_path, clean=False)))


def test_a_first_terminal_that_fails_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '```console title="first terminal"\n$ echo no; exit 2\n```\n```console title="second terminal"\n$ false\n```\n'
    )
    with pytest.raises(walk.WalkError, match="first terminal ended with 2\nno"):
        list(walk.walk(page, tmp_path, walk.environment(tmp_path, clean=False)))


@pytest.mark.parametrize("record", sorted((DOCS / "walks").glob("*.txt")), ids=lambda path: path.stem)
def test_a_recorded_walk_has_the_commands_of_its_page(record: Path) -> None:
    (page,) = (DOCS / page for page in WALKS if Path(page).stem == record.stem)
    commands = [step.text for step in walk.steps(page.read_text()) if isinstance(step, walk.Command)]
    text = record.read_text()
    recorded = [f"$ {command}\n" for command in commands]
    assert text.count("\n$ ") + 1 == len(commands), "record it again: hack/walk.py --clean --record"
    assert all(command in text for command in recorded)


@pytest.mark.parametrize(
    ("page", "example", "files"),
    [
        ("first-operator.md", "configmap-restarter", {"restarter.py"}),
        ("configmonitor.md", "configmonitor", {"monitors.py", "test_monitors.py", "web.yaml", "ambassador.yaml"}),
    ],
)
def test_the_files_of_a_tutorial_are_those_of_its_example(page: str, example: str, files: set[str]) -> None:
    steps = walk.steps((DOCS / "tutorials" / page).read_text())
    written = {step.path: step.text for step in steps if isinstance(step, walk.File)}
    assert files <= set(written)
    for name in files:
        (file,) = (ROOT / "examples" / example).rglob(name)
        assert written[name] == file.read_text(), name


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_repository_that_pages_clone_is_this_one(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs the git checkout")
    variables = walk.environment(tmp_path, clean=False)
    command = ["git", "ls-remote", "https://github.com/steersman/steersman", "HEAD"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == head.stdout.strip()
