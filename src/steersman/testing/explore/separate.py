"""Explores a test in a separate process, because the process of the test has threads and therefore cannot fork.

The separate process imports the test by the name of its module and explores it there. Fixtures are passed as pickles. A
test that cannot be imported, such as a function in a function, is explored in the process of the test.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from steersman.testing.explore.exploration import Exploration, Request, explore

__all__ = ["Importable", "SeparateError", "explore_separately", "importable", "main"]


class _Test(Protocol):
    """A test that `explored` has marked."""

    @property
    def scenario(self) -> Callable[..., Awaitable[None]]: ...

    def request(self, *, fixtures: dict[str, Any] | None = None) -> Request: ...


class SeparateError(RuntimeError):
    """The separate process could not import or explore the test."""


@dataclass(frozen=True, slots=True)
class Importable:
    """The place of a test.

    Args:
        module: The name of the module.
        file: Its file.
        name: The name of the test in the module.
    """

    module: str
    file: str
    name: str

    def load(self) -> _Test:
        """Return the test. Raises `SeparateError`."""
        try:
            found: Any = _module(self.module, self.file)
            for part in self.name.split("."):
                found = getattr(found, part)
            return found.explored
        except Exception as problem:
            raise SeparateError(f"{self.module}.{self.name}: {type(problem).__name__}: {problem}") from problem


def importable(test: _Test) -> Importable | None:
    """Return the place of a test; `None` if its module has no such attribute.

    Args:
        test: The test.
    """
    scenario = test.scenario
    module = sys.modules.get(scenario.__module__)
    file = getattr(module, "__file__", None)
    found: Any = module
    for part in scenario.__qualname__.split("."):
        found = getattr(found, part, None)
    if file is None or getattr(found, "explored", None) is not test:
        return None
    return Importable(scenario.__module__, str(Path(file).resolve()), scenario.__qualname__)


def explore_separately(place: Importable, fixtures: Mapping[str, Any]) -> Exploration:
    """Explore a test in a separate process, and return the result.

    Args:
        place: The test.
        fixtures: The arguments of the test.

    Raises:
        SeparateError: The fixtures cannot be pickled, the module cannot be imported, or the process ended.
    """
    try:
        given = pickle.dumps((list(sys.path), pickle.dumps((place, dict(fixtures)))))
    except Exception as problem:
        raise SeparateError(f"{place.name}: its fixtures cannot be pickled: {problem}") from problem
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as results:
        process = subprocess.Popen(  # noqa: S603 - this Python, with a constant program
            [sys.executable, "-c", f"from {__name__} import main; main()", str(writing)],
            stdin=subprocess.PIPE,
            pass_fds=(writing,),
        )
        try:
            os.close(writing)
            assert process.stdin is not None
            with process.stdin as arguments:
                arguments.write(given)
            data = results.read()
            process.wait()
        finally:
            process.kill()
            process.wait()
    if not data:
        raise SeparateError(f"{place.module}.{place.name}: the process ended with {process.returncode}")
    result = pickle.loads(data)  # noqa: S301 - written by the process that was started here
    if isinstance(result, SeparateError):
        raise result
    return result


def _module(name: str, file: str) -> ModuleType:
    """Return the module of a file, by its name if the name leads to that file."""
    path = Path(file)
    root = str(path.parents[name.count(".")])  # pytest imports modules whose root is not on the path
    if root not in sys.path:
        sys.path.append(root)
    try:
        found = importlib.import_module(name)
        if Path(getattr(found, "__file__", None) or "").resolve() == path:
            return found
    except ModuleNotFoundError as problem:
        if problem.name != name:
            raise
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no module")
    sys.modules[name] = found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def main() -> None:
    """Explore the test that standard input names, and write the result to the descriptor of the first argument."""
    sys.path[:], given = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - written by the process of the test
    result: Exploration | SeparateError
    try:
        place, fixtures = pickle.loads(given)  # noqa: S301 - see above
        result = explore(place.load().request(fixtures=fixtures))
    except SeparateError as problem:
        result = problem
    with os.fdopen(int(sys.argv[1]), "wb") as out:
        out.write(pickle.dumps(result, protocol=5))
