"""The operator of the project in the working directory, which its `PROJECT` file names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from steersman.cli.operator_loader import LoadError

__all__ = ["project_operator"]


def project_operator() -> str:
    """Return `package:operator` of the project in the working directory.

    `steersman init` writes the `PROJECT` file and a package that exports `operator`.

    Raises:
        LoadError: There is no project in this directory, or its file names no package.
    """
    import yaml

    from steersman import documents

    try:
        project: Any = documents.load(Path("PROJECT").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LoadError(
            "name the operator (MODULE:OPERATOR, as in helloapp:operator): only in a project's directory, with a "
            "PROJECT file that `steersman init` writes, it may be left out"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise LoadError(f"PROJECT cannot be read ({problem}): name the operator (MODULE:OPERATOR)") from None
    package = cast("dict[str, Any]", project).get("package") if isinstance(project, dict) else None
    if not isinstance(package, str) or not package:
        raise LoadError("PROJECT names no package: name the operator (MODULE:OPERATOR, as in helloapp:operator)")
    return f"{package}:operator"
