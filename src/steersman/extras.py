"""Optional packages: a command or component that needs some names all that are missing before it starts."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

__all__ = ["MissingExtraError", "is_installed", "require"]

_DISTRIBUTIONS: Final = {
    "cel_expr_python": "cel-expr-python",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "steersman_cluster": "steersman-cluster",
}
"""Names of distributions that differ from the names of their modules."""


class MissingExtraError(Exception):
    """Packages of an extra are not installed; the message names them and the command that installs them."""


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it (its parent packages are imported)."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def require(user: str, extra: str, *modules: str, otherwise: str = "") -> None:
    """Check that modules are installed.

    Args:
        user: The command, option or component that needs them; the subject of the message.
        extra: The extra of the distribution `steersman` that installs them.
        modules: Names of modules, in the order of the message.
        otherwise: Another way out, such as an option to leave out.

    Raises:
        MissingExtraError: At least one module is missing; the message names all that are.
    """
    missing = [_DISTRIBUTIONS.get(module, module) for module in modules if not is_installed(module)]
    if not missing:
        return
    names = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
    verb = "is" if len(missing) == 1 else "are"
    way_out = f", or {otherwise}" if otherwise else ""
    raise MissingExtraError(
        f"{user} needs {names}, which {verb} not installed: pip install 'steersman[{extra}]'{way_out}"
    )
