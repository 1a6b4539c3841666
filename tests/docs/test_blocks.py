"""Every console and Python block of the documentation is run, compared with a file, or says why it is not."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.main import get_command

from steersman.cli import real_node
from steersman.cli.app import app
from tests.docs import test_examples, test_walks

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "hack"))

import walk  # noqa: E402

PAGES: Final = tuple(
    page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if not page.name.startswith("commands")
)
"""All pages; the reference of the commands has no blocks of these languages."""
RUN_ELSEWHERE: Final = {"README.md": "tests/docs/test_readme.py", "docs/webhooks.md": "tests/webhook/test_docs.py"}
"""Pages whose Python blocks without a title are run by a test of their own."""
MAKEFILES: Final = "".join(
    (ROOT / file).read_text() for file in ("Makefile", "src/steersman/scaffold/templates/project/Makefile.jinja")
)
_BLOCK: Final = re.compile(
    r'^(?P<indent> *)```(?P<language>\w+)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)^(?P=indent)```',
    re.MULTILINE | re.DOTALL,
)
_NOT_RUN: Final = re.compile(r"not run: \S.{10,}")


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    page: str
    line: int
    language: str
    title: str
    text: str
    indented: bool


def blocks(languages: set[str]) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for found in _BLOCK.finditer(text):
            if found["language"] in languages:
                line = text.count("\n", 0, found.start()) + 1
                name = str(page.relative_to(ROOT))
                yield Block(name, line, found["language"], found["title"] or "", found["text"], bool(found["indent"]))


def walked(page: str) -> bool:
    return page.removeprefix("docs/") in test_walks.WALKS or f"../{page}" in test_walks.WALKS


def titled(block: Block) -> str:
    return f"{block.page}:{block.line}"


CONSOLE: Final = tuple(blocks({"console", "sh", "bash", "shell"}))
PYTHON: Final = tuple(blocks({"python", "py"}))


@pytest.mark.parametrize("block", CONSOLE, ids=titled)
def test_a_console_block_is_run_or_says_why_not(block: Block) -> None:
    assert block.language == "console", "write ```console, with `$ ` before each command"
    if block.title.startswith("not run"):
        assert _NOT_RUN.fullmatch(block.title), "the title has the reason: `not run: it needs …`"
    else:
        assert walked(block.page), 'add the page to WALKS in test_walks.py, or title="not run: REASON"'
        assert not block.indented, "only blocks at the left margin are run"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_in_fenced_blocks(page: Path) -> None:
    text = _BLOCK.sub("", page.read_text())
    assert re.findall(r"^ {4}(?:\$ )?(?:kubectl|steersman|pip|make|python3?|helm|docker) .*", text, re.MULTILINE) == []


@pytest.mark.parametrize("block", PYTHON, ids=titled)
def test_a_python_block_is_run_or_compared_or_says_why_not(block: Block) -> None:
    assert block.language == "python", "write ```python"
    assert not block.indented, "only blocks at the left margin are run"
    if block.title.startswith("not run"):
        assert _NOT_RUN.fullmatch(block.title), "the title has the reason: `not run: it needs …`"
        compile(block.text, titled(block), "exec")
    elif block.title.startswith("file: "):
        assert walked(block.page), "a file is written by a reader who follows the page: add it to WALKS"
    elif block.title:
        assert (ROOT / block.title).is_file(), "the title is a file of the repository"
        assert block.text.strip() in (ROOT / block.title).read_text(), f"{block.title} is another text"
    elif block.page in RUN_ELSEWHERE:
        test = ROOT / RUN_ELSEWHERE[block.page]
        assert Path(block.page).name in test.read_text()
    else:
        assert block.page.removeprefix("docs/") in test_examples.PAGES, "add the page to PAGES in test_examples.py"


def commands() -> list[tuple[str, str]]:
    """The commands of blocks that are not run."""
    found: list[tuple[str, str]] = []
    for block in CONSOLE:
        if block.title.startswith("not run"):
            text = re.sub(rf"^{' ' * 4 if block.indented else ''}", "", block.text, flags=re.MULTILINE)
            found += [
                (titled(block), s.text) for s in walk.steps(f"```console\n{text}```\n") if isinstance(s, walk.Command)
            ]
    return found


@pytest.mark.parametrize(("place", "command"), commands())
def test_a_command_that_is_not_run_exists_with_its_options(place: str, command: str) -> None:
    words = shlex.split(command, comments=True)
    while words and "=" in words[0]:
        words.pop(0)
    match words:
        case ["steersman", *rest]:
            group = app
            if real_node.FLAG in rest:
                group = typer.Typer()
                real_node.mount(group)
                group.callback()(lambda: None)
                rest = real_node.routed(rest)[1:]
            assert_options_exist(get_command(group), rest)
        case ["make", *rest]:
            targets = set(re.findall(r"^([a-z-]+):", MAKEFILES, re.MULTILINE))
            assert {word for word in rest if "=" not in word} <= targets
        case ["sh", script, *_]:
            assert (ROOT / script).is_file()
        case [program, *_]:
            assert program in ("apt-get", "buildah", "kubectl"), f"{place}: run it, or add it here"
        case _:
            pytest.fail(f"{place}: there is no command")


def assert_options_exist(command: Any, words: list[str]) -> None:
    """Parse the words as the command does; an unknown option and a missing value are errors."""
    context = command.context_class(command)
    while hasattr(command, "commands") and words:
        name = words.pop(0)
        assert name in command.commands, f"steersman has no command {name}"
        command = command.commands[name]
        context = command.context_class(command, parent=context, info_name=name)
    command.make_parser(context).parse_args(words)


@cache
def excused() -> int:
    return sum(block.title.startswith("not run") for block in (*CONSOLE, *PYTHON))


def test_most_blocks_are_run() -> None:
    assert excused() / len((*CONSOLE, *PYTHON)) < 0.15
