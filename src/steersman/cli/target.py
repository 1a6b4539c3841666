"""Which operator is meant where a command does not say: the project's, whose `PROJECT` file lies in this directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

__all__ = ["Target", "project_operator"]


def project_operator() -> str:
    """`package:operator` of the project in the working directory; raises `BadParameter` where there is none.

    `steersman init` writes the `PROJECT` file and a package that exports `operator`.
    """
    import yaml

    from steersman import documents

    try:
        project: Any = documents.load(Path("PROJECT").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise typer.BadParameter(
            "say which operator is meant, as in helloapp:operator; only in a project's directory (with a PROJECT "
            "file, which `steersman init` writes) it may be left out"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise typer.BadParameter(f"PROJECT cannot be read ({problem}): say which operator is meant") from None
    package = cast("dict[str, Any]", project).get("package") if isinstance(project, dict) else None
    if not isinstance(package, str) or not package:
        raise typer.BadParameter("PROJECT names no package: say which operator is meant, as in helloapp:operator")
    return f"{package}:operator"


Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:OPERATOR",
        help="The operator, as in helloapp:operator; that of the project in this directory if left out.",
        default_factory=project_operator,
        show_default=False,
    ),
]
"""The argument of every command that is about one operator."""
