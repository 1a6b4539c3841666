"""Compiles the hot paths of a wheel, where `STEERSMAN_COMPILE=1` asks for it; `make wheels` does.

Which modules, pyproject.toml says, and docs/architecture.md why. They are the same source, by mypyc made into C: a
wheel holds both, and Python takes what is compiled. Nothing is ever compiled into a source tree, so that what is
edited is what runs.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WANTED = "STEERSMAN_COMPILE"


class Compile(BuildHookInterface):
    """Adds the compiled modules to a wheel, which then is one for this Python and this platform."""

    PLUGIN_NAME = "custom"

    def wanted(self) -> bool:
        return os.environ.get(WANTED, "0") not in ("", "0")

    def dependencies(self) -> list[str]:
        return self.config["requires"] if self.wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not self.wanted() or version == "editable":
            return
        self.scratch = tempfile.TemporaryDirectory(prefix="steersman-wheel-")
        built = compiled(Path(self.root), self.config["modules"], Path(self.scratch.name))
        build_data["force_include"].update({str(path): name for path, name in built})
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "scratch"):
            self.scratch.cleanup()


def compiled(root: Path, modules: list[str], scratch: Path) -> list[tuple[Path, str]]:
    """The extension modules, and where in a wheel they belong.

    mypy looks at no installed package, so that what comes out does not depend on what is there.
    """
    try:
        from mypyc.build import mypycify
        from setuptools import Distribution
        from setuptools.command.build_ext import build_ext
    except ImportError as problem:
        raise SystemExit(f"{WANTED} is set, and {problem.name} is missing: pip install 'mypy[mypyc]'") from None
    os.chdir(root)
    os.environ["MYPYPATH"] = "src"
    mypy = ["--config-file=", f"--cache-dir={os.devnull}", "--no-site-packages", "--ignore-missing-imports"]
    paths = [f"src/{module.replace('.', '/')}.py" for module in modules]
    extensions = mypycify(
        [*mypy, "--follow-imports=silent", *paths],
        opt_level="2",
        debug_level="0",
        group_name="steersman",
        target_dir=str(scratch / "c"),
    )
    for extension in extensions:  # nobody else may replace its functions, so that they call each other directly
        extension.extra_compile_args.append("-fvisibility=hidden")
    library = scratch / "lib"
    command = build_ext(Distribution({"name": "steersman", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(library), str(scratch / "o")
    command.ensure_finalized()
    command.run()
    return [(path, path.relative_to(library).as_posix()) for path in sorted(library.rglob("*.so"))]
