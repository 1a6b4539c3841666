"""`steersman build`: the operator's image, by whichever of docker, podman and buildah there is.

The command line is shown before it runs, so that it can be copied to where it must work without us.
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

from steersman.cli import packages
from steersman.cli.loading import LoadError

__all__ = ["build", "commands"]

Tool = Literal["docker", "podman", "buildah"]
_TOOLS: Final[tuple[Tool, ...]] = ("docker", "podman", "buildah")


def build(
    directory: Annotated[Path, typer.Argument(help="The project, with a Dockerfile.")] = Path(),
    image: packages.Image = None,
    tool: Annotated[
        Literal["auto", "docker", "podman", "buildah"], typer.Option(help="auto: the first that is installed.")
    ] = "auto",
    file: Annotated[Path | None, typer.Option("--file", "-f", help="The Dockerfile.")] = None,
    platform: Annotated[
        list[str] | None, typer.Option(help="As in linux/arm64; may be repeated, for an image of several.")
    ] = None,
    build_arg: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated.")] = None,
    push: Annotated[bool, typer.Option("--push", help="Push the image when it is built.")] = False,
    push_only: Annotated[
        bool, typer.Option("--push-only", help="Push the image that an earlier run has built.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the command lines.")] = False,
    format: packages.Format = "text",
) -> None:
    """Build the operator's image from the project's Dockerfile."""
    dockerfile = file or directory / "Dockerfile"
    if not dockerfile.is_file():
        raise LoadError(f"{dockerfile}: there is no such file; `steersman init` writes one")
    chosen = _chosen(tool)
    lines = commands(
        chosen,
        image or _image_of(directory),
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
        typer.echo(json.dumps({"tool": chosen, "image": image or _image_of(directory), "commands": lines}))
    for line in lines:
        if format == "text":
            typer.echo(shlex.join(line))
        if not dry_run:
            _run(line)


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
    """The command lines. Raises `LoadError` for what the tool cannot do."""
    several = len(platforms) > 1
    if several and tool == "docker" and not push:
        raise LoadError("docker keeps images of several platforms in registries only: add --push, or use podman")
    words: list[str] = [tool, "buildx", "build"] if several and tool == "docker" else [tool, "build"]
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


def _chosen(tool: Literal["auto"] | Tool) -> Tool:
    if tool != "auto":
        return tool
    found: Tool | None = next((name for name in _TOOLS if shutil.which(name)), None)
    if found is None:
        raise LoadError("none of docker, podman and buildah is installed", 1)
    return found


def _image_of(directory: Path) -> str:
    facts = packages.project(directory)
    if not facts.get("name"):
        raise LoadError("the image has no name: say --image, or give the project one in pyproject.toml")
    return f"{facts['name']}:{str(facts.get('version') or 'latest').replace('+', '_')}".lower()


def _run(line: list[str]) -> None:
    try:
        done = subprocess.run(line, check=False, env=os.environ)  # noqa: S603 - what was asked for, without a shell
    except FileNotFoundError:
        raise LoadError(f"{line[0]} is not installed", 1) from None
    if done.returncode:
        raise LoadError(f"{line[0]} failed with exit code {done.returncode}", 1)
