"""Each public name has an example in code that the tests run; the site shows it in the reference of the API."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "hack"))

import api_examples  # noqa: E402

WITHOUT: Final = {
    "Binaries",  # of a control plane that a machine may lack
    "Check",
    "DeadlockError",
    "ExecResult",  # of containers, which need process nodes
    "ExecSession",
    "ExistingCluster",
    "Explored",
    "Forwarding",
    "Job",  # of explorations, as difference
    "NoProgressError",
    "Raw",
    "SequenceFailure",  # of generated sequences of changes
    "SimulatedOperator",
    "UndecodableItem",
    "WriteEnded",
    "WriteGate",
    "WriteObserver",
    "difference",
    "to_self",
}
"""Names that only annotations and the internals of other parts use."""


def test_every_public_name_has_an_example() -> None:
    found = api_examples.examples()
    missing = {name for path, (name, _) in api_examples.public_names().items() if path not in found}
    assert missing == WITHOUT, "use the name on a page, or in test_api_by_example.py"


def test_the_statement_that_uses_a_name_is_its_example() -> None:
    code = "from steersman import Key\n\n\ndef f():\n    if True:\n        print(Key('a', 'b'))\n"
    assert list(api_examples.statements(code, ["steersman"])) == [("steersman", "Key", "print(Key('a', 'b'))")]


def test_a_long_function_is_cut_after_its_head() -> None:
    body = "".join(f"    x{number} = {number}\n" for number in range(20))
    code = f"from steersman import Context\n\n\nasync def f(ctx: Context) -> None:\n{body}"
    ((_, name, text),) = api_examples.statements(code, ["steersman"])
    assert (name, text) == ("Context", "async def f(ctx: Context) -> None:\n    ...")
