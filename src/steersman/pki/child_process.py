"""Calls functions that need `cryptography` in short processes of their own.

`cryptography` would stay in the memory of an operator, of which it would be a quarter, for a few certificates. The
arguments and the result pass pipes, so that keys are in no file and no command line.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["call_in_child_process", "call_without_loading_cryptography"]

_TIMEOUT_SECONDS = 30.0

P = ParamSpec("P")
T = TypeVar("T")


def call_in_child_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a function of a module, or raise its exception; blocks until the process has ended.

    If no process can be started, or if it cannot import the function, this process calls the function.
    """
    import pickle

    try:
        output = subprocess.run(  # noqa: S603 - this interpreter and this module
            [sys.executable, "-P", "-m", __name__],
            input=pickle.dumps((function, args, kwargs)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return function(*args, **kwargs)
    error, result = pickle.loads(output)  # noqa: S301 - written by `_serve` in the process that ran above
    if error is not None:
        raise error
    return result


async def call_without_loading_cryptography(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a function of a module; a child process calls it unless `cryptography` is loaded here."""
    if "cryptography" in sys.modules:
        return function(*args, **kwargs)
    return await asyncio.to_thread(call_in_child_process, function, *args, **kwargs)


def _serve() -> None:
    """Call the function that the parent process sends, and send back its exception and its result."""
    import pickle

    function, args, kwargs = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by the parent process
    try:
        answer = None, function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the parent process raises it
        answer = error, None
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    _serve()
