"""SQL of both flavors: literals, names, settings, error numbers, and common statements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mysqlcluster.engines.base import Layout, Session

__all__ = [
    "LOADER",
    "checked",
    "close_connection",
    "configuration_text",
    "environment",
    "error_number",
    "error_text",
    "quoted",
    "set_global",
]

READ_ONLY_VARIABLE_ERROR = 1238
UNKNOWN_THREAD_ERROR = 1094
LOADER = "usr/lib64/ld-linux-x86-64.so.2"
"""If the root directory contains its own C library, programs are started with its loader."""

_NAME = re.compile(r"[A-Za-z0-9_.$-]{1,80}")
_BARE = re.compile(r"-?\d+(\.\d+)?|ON|OFF")


def quoted(text: str) -> str:
    """Return a text as an SQL literal, for statements that take no parameters."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def checked(name: str) -> str:
    """Return a name of a variable or a database.

    Raises:
        ValueError: The text is not such a name.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a name of a variable or database")
    return name


def configuration_text(section: str, settings: Mapping[str, str]) -> str:
    """Return a configuration file with one section.

    Raises:
        ValueError: A name is malformed, or a value has a line break.
    """
    lines: list[str] = []
    for name, value in sorted(settings.items()):
        if any(letter in value for letter in "\n\r\0"):
            raise ValueError(f"the setting {name} has a line break")
        lines.append(f"{checked(name)} = {value}\n")
    return f"[{section}]\n" + "".join(lines)


def environment(layout: Layout) -> dict[str, str]:
    """Return the environment of a server's programs, whose root directory may not be `/`."""
    path = {"PATH": f"{layout.root}/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    if layout.root == Path("/") or (layout.root / LOADER).exists():
        return path  # the loader of the system finds the libraries
    return {**path, "LD_LIBRARY_PATH": str(layout.root / "usr/lib/x86_64-linux-gnu")}


def error_number(problem: BaseException) -> int:
    """Return the error number of the server; 0 if the error is not from the server."""
    return problem.args[0] if problem.args and isinstance(problem.args[0], int) else 0


def error_text(number: Any, text: Any) -> str:
    """Return the text of a replication error for a report; empty if there is no error."""
    return f"{number}: {text}" if number else ""


async def close_connection(session: Session, connection: int) -> None:
    """Close one client connection, if it still exists."""
    try:
        await session.run(f"KILL CONNECTION {connection:d}")
    except Exception as problem:
        if error_number(problem) != UNKNOWN_THREAD_ERROR:
            raise


async def set_global(session: Session, name: str, value: str) -> bool:
    """Set a dynamic variable; returns `False` if only a restart can change it."""
    literal = value if _BARE.fullmatch(value) else quoted(value)
    try:
        await session.run(f"SET GLOBAL {checked(name).replace('-', '_')} = {literal}")
    except Exception as problem:
        if error_number(problem) == READ_ONLY_VARIABLE_ERROR:
            return False
        raise
    return True
