"""`steersman build`: builds the operator's image with docker, podman or buildah.

The command line is shown before it runs, so that it can be copied to a machine without Steersman.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from steersman.cli.operator_loader import LoadError
from steersman.cli.packaging import package_options

__all__ = ["build", "commands"]

Tool = Literal["docker", "podman", "buildah"]
_TOOLS: Final[tuple[Tool, ...]] = ("docker", "podman", "buildah")
_USABLE: Final[dict[Tool, tuple[str, ...]]] = {
    "docker": ("docker", "version", "--format", "{{.Server.Version}}"),
    "podman": ("podman", "info", "--format", "{{.Host.Os}}"),
    "buildah": ("buildah", "version"),
}
"""Commands that succeed where a tool can build: docker, and podman outside of Linux, need a running daemon."""
_PROBE_TIMEOUT_SECONDS: Final = 10.0
_HUB: Final = "docker.io"


def build(
    directory: Annotated[Path, typer.Argument(help="The project, with a Dockerfile.")] = Path(),
    image: package_options.Image = None,
    tool: Annotated[
        Literal["auto", "docker", "podman", "buildah"],
        typer.Option(help="auto: the first installed tool that can build."),
    ] = "auto",
    file: Annotated[Path | None, typer.Option("--file", "-f", help="The Dockerfile.")] = None,
    platform: Annotated[
        list[str] | None, typer.Option(help="Platform such as linux/arm64; may be repeated for a multi-platform image.")
    ] = None,
    build_arg: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated.")] = None,
    *,
    push: Annotated[bool, typer.Option("--push", help="Push the image after the build.")] = False,
    push_only: Annotated[
        bool, typer.Option("--push-only", help="Push the image of an earlier run; build nothing.")
    ] = False,
    check_imports: Annotated[
        bool,
        typer.Option(
            "--check-imports/--no-check-imports", help="Fail if the code imports a module that no dependency provides."
        ),
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the command lines.")] = False,
    format: package_options.Format = "text",
) -> None:
    """Build the operator's image from the project's Dockerfile."""
    dockerfile = file or directory / "Dockerfile"
    if not dockerfile.is_file():
        raise LoadError(f"{dockerfile}: the file does not exist; `steersman init` creates one")
    if check_imports and not push_only:
        _check_imports(directory)
    chosen = _chosen(tool)
    name = qualified(image or _image_of(directory))
    lines = commands(
        chosen,
        name,
        dockerfile,
        directory,
        platforms=tuple(platform or ()),
        arguments=tuple(build_arg or ()),
        push=push or push_only,
    )
    if push_only:
        if len(lines) < 2:
            raise LoadError(f"{chosen} builds and pushes images of several platforms at once: use --push")
        lines = lines[1:]
    if format == "json":
        typer.echo(json.dumps({"tool": chosen, "image": name, "commands": lines}))
    for line in lines:
        if format == "text":
            typer.echo(shlex.join(line))
        if not dry_run:
            _run(line)


def _check_imports(directory: Path) -> None:
    """Print uncertain problems as warnings. Raises `LoadError` for certain ones."""
    from steersman.cli.packaging.imports import find_problems

    try:
        found = find_problems(directory)
    except (OSError, ValueError) as problem:
        raise LoadError(f"{directory / 'pyproject.toml'}: {problem}", 1) from None
    for problem in found:
        if not problem.certain:
            typer.echo(f"warning: {problem}", err=True)
    certain = [str(problem) for problem in found if problem.certain]
    if certain:
        raise LoadError("\nerror: ".join(certain) + "\n--no-check-imports skips this check", 1)


def commands(
    tool: Tool,
    image: str,
    dockerfile: Path,
    directory: Path,
    *,
    platforms: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
    push: bool = False,
) -> list[list[str]]:
    """Return the command lines.

    Args:
        tool: The program.
        image: The name to build under; containerd resolves that of the Deployment to the same image.
        dockerfile: The Dockerfile.
        directory: The build context.
        platforms: One or several, as in `linux/arm64`.
        arguments: Build arguments, as `NAME=VALUE`.
        push: Whether the image is pushed.

    Raises:
        LoadError: The tool cannot do that, or the image is named by a digest.
    """
    image = qualified(image)
    several = len(platforms) > 1
    if several and tool == "docker" and not push:
        raise LoadError("docker keeps images of several platforms in registries only: add --push, or use podman")
    words: list[str] = [tool, "buildx", "build"] if several and tool == "docker" else [tool, "build"]
    if tool == "buildah":
        words.append("--layers")  # The other tools cache layers without an option.
    words += ["--file", str(dockerfile)]
    words += ["--manifest" if several and tool != "docker" else "--tag", image]
    if platforms:
        words += ["--platform", ",".join(platforms)]
    for argument in arguments:
        words += ["--build-arg", argument]
    if several and tool == "docker":
        return [[*words, "--push", str(directory)]]
    lines = [[*words, str(directory)]]
    if push:
        lines.append(
            [tool, "manifest", "push", "--all", image, f"docker://{image}"] if several else [tool, "push", image]
        )
    return lines


def qualified(image: str) -> str:
    """Return the image's name with registry and tag, as containerd resolves the name in a Pod.

    podman and buildah store a name without a registry under `localhost/`, where no kubelet finds it.

    Source: the reference grammar of the distribution project ("familiar names").

    Raises:
        LoadError: The name has a digest.
    """
    if "@" in image:
        raise LoadError(f"--image {image}: an image is built under a tag; a digest follows from the content")
    first, slash, rest = image.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, rest = _HUB, image
    if first in (_HUB, f"index.{_HUB}"):
        first, rest = _HUB, rest if "/" in rest else f"library/{rest}"
    return f"{first}/{rest}" if ":" in rest else f"{first}/{rest}:latest"


def _chosen(tool: Literal["auto"] | Tool) -> Tool:
    """Return the requested tool, or the first that can build. Raises `LoadError` with the reason of each tool."""
    if tool != "auto":
        return tool
    reasons: list[str] = []
    for name in _TOOLS:
        reason = _unusable(name)
        if not reason:
            return name
        reasons.append(f"{name}: {reason}")
    raise LoadError(f"no tool can build an image; start or install one of them ({'; '.join(reasons)})", 1)


def _unusable(tool: Tool) -> str:
    """Return why a tool cannot build; an empty string if it can."""
    if shutil.which(tool) is None:
        return "not installed"
    words = _USABLE[tool]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            words, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"`{shlex.join(words)}` has not answered within {_PROBE_TIMEOUT_SECONDS:g} s"
    except OSError as problem:
        return problem.strerror or str(problem)
    if done.returncode == 0:
        return ""
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return said[-1] if said else f"`{shlex.join(words)}` failed with exit code {done.returncode}"


def _image_of(directory: Path) -> str:
    facts = package_options.project(directory)
    if not facts.get("name"):
        raise LoadError("the image has no name: set --image, or the project's name in pyproject.toml")
    return f"{facts['name']}:{str(facts.get('version') or 'latest').replace('+', '_')}".lower()


def _run(line: list[str]) -> None:
    try:
        done = subprocess.run(line, check=False, env=os.environ)  # noqa: S603 - the user's command, without a shell
    except FileNotFoundError:
        raise LoadError(f"{line[0]} is not installed", 1) from None
    if done.returncode:
        raise LoadError(f"{line[0]} failed with exit code {done.returncode}", 1)
