"""Pages whose commands are followed literally: files written, commands run, output compared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
sys.path.insert(0, str(ROOT / "hack"))

import walk  # noqa: E402

WALKS: Final = {
    "tutorials/first-operator.md": ("kubectl",),
    "tutorials/helloapp.md": ("kubectl", "jq"),
    "tutorials/sidecarset.md": ("kubectl",),
    "tutorials/stateful.md": ("kubectl",),
    "tutorials/cronjob.md": ("kubectl", "git"),
    "how-to/debugging.md": ("kubectl", "jq", "curl"),
    "how-to/from-kopf.md": ("kubectl",),
    "how-to/other-languages.md": ("kubectl", "jq", "go"),
}
"""The pages, and the programs that they need beside Python."""


@pytest.mark.slow
@pytest.mark.parametrize("page", WALKS)
def test_a_reader_can_follow_the_page(page: str, tmp_path: Path) -> None:
    missing = [name for name in WALKS[page] if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    if "go" in WALKS[page] and not os.environ.get("STEERSMAN_WALK_GO"):
        pytest.skip("downloads Go modules: set STEERSMAN_WALK_GO=1")
    if "git" in WALKS[page] and not (ROOT / ".git").exists():
        pytest.skip("needs the git checkout, which the page clones")
    place = tmp_path / "work"
    place.mkdir()
    done = list(walk.walk(DOCS / page, place, walk.environment(tmp_path, clean=False)))
    assert len(done) >= 5


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


def test_every_command_of_a_tutorial_is_run_or_says_why_not() -> None:
    followed = {DOCS / page for page in WALKS}
    for page in sorted(DOCS.glob("tutorials/*.md")):
        commands = [step for step in walk.steps(page.read_text()) if isinstance(step, walk.Command)]
        assert not commands or page in followed, f"{page.name}: add it to WALKS"


@pytest.mark.parametrize("record", sorted((DOCS / "walks").glob("*.txt")), ids=lambda path: path.stem)
def test_a_recorded_walk_has_the_commands_of_its_page(record: Path) -> None:
    (page,) = (DOCS / page for page in WALKS if Path(page).stem == record.stem)
    commands = [step.text for step in walk.steps(page.read_text()) if isinstance(step, walk.Command)]
    text = record.read_text()
    recorded = [f"$ {command}\n" for command in commands]
    assert text.count("\n$ ") + 1 == len(commands), "record it again: hack/walk.py --clean --record"
    assert all(command in text for command in recorded)


def test_the_file_of_the_first_tutorial_is_that_of_the_example() -> None:
    written = next(
        s for s in walk.steps((DOCS / "tutorials/first-operator.md").read_text()) if isinstance(s, walk.File)
    )
    example = ROOT / "examples/configmap-restarter/restarter.py"
    assert (written.path, written.text) == (example.name, example.read_text())


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_repository_that_pages_clone_is_this_one(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs the git checkout")
    variables = walk.environment(tmp_path, clean=False)
    command = ["git", "ls-remote", "https://github.com/steersman/steersman", "HEAD"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == head.stdout.strip()
