"""Loads the `Operator` that `module:attribute` names, like `python -c "import module"`.

The current directory is the first entry of `sys.path`. Tracebacks contain only frames of the user's code, without
those of the import system and of Steersman.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steersman.operator.operator import Operator

__all__ = ["LoadError", "load_factory", "load_operator"]

_FRAMEWORK_DIRECTORY = str(Path(__file__).resolve().parent.parent)


class LoadError(Exception):
    """The operator could not be loaded; `code` is the exit status."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


def load_operator(target: str, directory: Path | None = None) -> Operator:
    """Import the module and return its operator; the default attribute is `operator`. Raises `LoadError`."""
    module, attribute = _module_of(target, directory)
    return _operator_of(module, attribute)


def load_factory(target: str, directory: Path | None = None) -> Callable[[], Operator] | None:
    """Import the module and return the function that makes its operator, `None` if the attribute is an operator.

    Args:
        target: `module:attribute`; the attribute is an operator or a function that makes one.
        directory: The first directory of the Python path, by default the working directory.

    Raises:
        LoadError: There is no such module or attribute, or it is neither an operator nor a function.
    """
    from steersman.operator.operator import Operator

    module, attribute = _module_of(target, directory)
    found = getattr(module, attribute, None)
    if isinstance(found, FunctionType):

        def made() -> Operator:
            operator = found()
            if not isinstance(operator, Operator):
                raise LoadError(f"{target} returned a {type(operator).__name__}, not an Operator")
            return operator

        made()
        return made
    _operator_of(module, attribute)
    return None


def _module_of(target: str, directory: Path | None) -> tuple[ModuleType, str]:
    name, _, attribute = target.partition(":")
    attribute = attribute or "operator"
    _check_name(name, attribute, target)
    where = str((directory or Path.cwd()).resolve())
    if where not in sys.path[:1]:
        sys.path.insert(0, where)
    importlib.invalidate_caches()
    return _import(name, where), attribute


def _check_name(name: str, attribute: str, target: str) -> None:
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise LoadError(f"{target!r} is a path; name the module instead: {dotted}:{attribute}")
    words = [*name.split("."), attribute]
    if not all(word.isidentifier() for word in words):
        raise LoadError(f"{target!r}: expected MODULE:ATTRIBUTE, for example helloapp:operator")


def _import(name: str, where: str) -> ModuleType:
    from steersman.models.declaring import ModelDeclarationError
    from steersman.operator.declarations import DeclarationError

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and (name == missing.name or name.startswith(missing.name + ".")):
            raise LoadError(
                f"there is no module {missing.name!r} in {where} or on the Python path. Run it in the directory that"
                f" holds {missing.name.partition('.')[0]}/ or {missing.name.partition('.')[0]}.py"
            ) from None
        raise LoadError(
            f"{_user_traceback(missing)}\n{name} imports {missing.name!r}, which is not installed", 1
        ) from None
    except SyntaxError as wrong:
        raise LoadError(f"{name} cannot be read:\n{_syntax(wrong)}", 1) from None
    except (DeclarationError, ModelDeclarationError) as wrong:
        raise LoadError(str(wrong), 1) from None
    except KeyboardInterrupt:
        raise
    except SystemExit as ended:
        raise LoadError(f"importing {name} ended the process (exit {ended.code})", 1) from None
    except BaseException as problem:  # noqa: BLE001 - whatever the user's module raises is shown as it is
        raise LoadError(f"importing {name} failed:\n{_user_traceback(problem)}", 1) from None


def _operator_of(module: ModuleType, attribute: str) -> Operator:
    from steersman.operator.operator import Operator

    name = module.__name__
    found = getattr(module, attribute, None)
    if isinstance(found, Operator):
        return found
    others = sorted(key for key, value in vars(module).items() if isinstance(value, Operator))
    hint = f"; it has {', '.join(f'{name}:{other}' for other in others)}" if others else ""
    if found is None and not hasattr(module, attribute):
        raise LoadError(f"module {name!r} ({module.__file__ or 'a namespace package'}) has no {attribute!r}{hint}")
    raise LoadError(f"{name}:{attribute} is a {type(found).__name__}, not an Operator{hint}")


def _syntax(wrong: SyntaxError) -> str:
    return "".join(traceback.format_exception_only(wrong)).rstrip()


def _user_traceback(problem: BaseException) -> str:
    """Return the traceback from the first frame of the user's code on."""
    frames = [f for f in traceback.extract_tb(_tb(problem)) if not _is_machinery(f.filename)]
    lines = traceback.format_list(frames)
    return "".join(["Traceback (most recent call last):\n", *lines, *traceback.format_exception_only(problem)]).rstrip()


def _tb(problem: BaseException) -> TracebackType | None:
    return problem.__traceback__


def _is_machinery(file: str) -> bool:
    return file.startswith(("<frozen", _FRAMEWORK_DIRECTORY)) or "importlib" in Path(file).parts
