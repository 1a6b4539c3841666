"""`steersman bundle`: an operator for the Operator Lifecycle Manager; `steersman bundle validate`: its checks."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.core import TyperGroup

from steersman.cli.crds.validation import embedded_check
from steersman.cli.operator_loader import LoadError
from steersman.cli.packaging import package_options
from steersman.cli.packaging.manifests import Output, finish
from steersman.cli.target import Target

if TYPE_CHECKING:
    from steersman.manifests.olm import Listing

__all__ = ["app"]


class _MakeByDefault(TyperGroup):
    """Reads `steersman bundle helloapp:operator` as `bundle make`: an argument that names no command is an operator."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["make", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(name="bundle", help="Make a bundle for OLM, or check one.", cls=_MakeByDefault, no_args_is_help=True)


@app.command("make")
def make(
    target: Target,
    output: Annotated[Path, typer.Option("--output-dir", "-o", help="The directory to write to.")] = Path("bundle"),
    *,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a file differs.")] = False,
    image: package_options.Image = None,
    version: package_options.Version = None,
    channels: Annotated[str, typer.Option(help="Channels, with commas between them.")] = "alpha",
    default_channel: Annotated[str, typer.Option(help="Default: the first of the channels.")] = "",
    replaces: Annotated[str, typer.Option(help="The replaced version, such as helloapp.v0.1.0.")] = "",
    display_name: Annotated[str, typer.Option(help="The display name.")] = "",
    provider: Annotated[str, typer.Option(help="The publisher; by default the project's first author.")] = "",
    capability: Annotated[
        Literal["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"],
        typer.Option(help="The capability level of the operator."),
    ] = "Basic Install",
    category: Annotated[list[str] | None, typer.Option(help="A category of OperatorHub; may be repeated.")] = None,
    related_image: Annotated[
        list[str] | None, typer.Option(help="NAME=IMAGE that the operator runs; may be repeated.")
    ] = None,
    icon: Annotated[Path | None, typer.Option(help="SVG, PNG, JPEG or GIF.")] = None,
    samples: Annotated[Path, typer.Option(help="Directory of examples; missing ones are made.")] = Path(
        "config/samples"
    ),
    catalog: Annotated[Path | None, typer.Option(help="Also write a file-based catalog to this directory.")] = None,
    bundle_image: Annotated[
        str, typer.Option(help="The bundle's own image, for the catalog; the operator's with -bundle if left out.")
    ] = "",
    format: package_options.Format = "text",
) -> None:
    """Make a bundle: manifests, metadata and tests, checked as OperatorHub checks them.

    `steersman bundle helloapp:operator` is the same as `steersman bundle make helloapp:operator`.
    """
    from steersman.manifests import ManifestError
    from steersman.manifests.olm import BUNDLE_FOLDERS, bundle_files, catalog_text

    package = package_options.package_for(target, image=image, version=version)
    listing = _listing(
        provider=provider,
        display_name=display_name,
        channels=tuple(dict.fromkeys(filter(None, (one.strip() for one in channels.split(","))))),
        default_channel=default_channel,
        replaces=replaces,
        capability=capability,
        categories=tuple(category or ()),
        related_images=tuple(_pair(one) for one in related_image or ()),
        icon=_icon(icon) if icon is not None else None,
    )
    given = _samples(samples)
    try:
        outputs = [Output(output, bundle_files(package, listing, given), BUNDLE_FOLDERS)]
        if catalog is not None:
            own = bundle_image or f"{package.repository}-bundle:v{package.version.replace('+', '_')}"
            outputs.append(Output(catalog, {"catalog.yaml": catalog_text(package, listing, own, given)}))
    except ManifestError as wrong:
        raise LoadError("\nerror: ".join(wrong.problems), 1) from None
    finish(outputs, check=check, format=format)
    if not check and not _validated(output, quiet=format == "json", strict=False):
        raise typer.Exit(1)


@app.command("validate")
def validate(
    directory: Annotated[Path, typer.Argument(help="The bundle's directory.")] = Path("bundle"),
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Also fail on warnings.")] = False,
    format: package_options.Format = "text",
) -> None:
    """Check a bundle offline: OLM's default validators and OperatorHub's (operatorhub/v2, capabilities, categories)."""
    if format == "json":
        findings = _findings(directory)
        typer.echo(json.dumps([{"level": one.level, "text": one.text} for one in findings], indent=2))
        failed = any(one.level == "Error" or strict for one in findings)
    else:
        failed = not _validated(directory, quiet=False, strict=strict)
    if failed:
        raise typer.Exit(1)


def _findings(directory: Path) -> list[Any]:
    from steersman.manifests.olm import read_bundle, validate

    try:
        return list(validate(read_bundle(directory), check=embedded_check()))
    except ValueError as wrong:
        raise LoadError(str(wrong), 1) from None
    except OSError as problem:
        raise LoadError(f"{problem.filename or directory}: {problem.strerror}", 1) from None


def _validated(directory: Path, *, quiet: bool, strict: bool) -> bool:
    findings = _findings(directory)
    for one in findings:
        typer.echo(str(one), err=True)
    errors = [one for one in findings if one.level == "Error" or strict]
    if not errors and not quiet:
        typer.echo(f"{directory} is a valid bundle")
    return not errors


def _listing(**given: Any) -> Listing:
    from steersman.manifests.olm import Listing

    facts = package_options.project(Path.cwd())
    authors = [cast("dict[str, str]", one) for one in facts.get("authors") or () if isinstance(one, dict)]
    urls: dict[str, str] = facts.get("urls") or {}
    terms = facts.get("license")
    if not given["channels"]:
        raise LoadError("--channels: name at least one")
    if given["default_channel"] and given["default_channel"] not in given["channels"]:
        raise LoadError(f"--default-channel: {given['default_channel']} is not among the channels")
    given["provider"] = given["provider"] or next((one["name"] for one in authors if one.get("name")), "")
    if not given["provider"]:
        raise LoadError(
            "a catalog names the publisher of an operator: pass --provider, or set authors in pyproject.toml"
        )
    return Listing(
        maintainers=tuple((one["name"], one["email"]) for one in authors if one.get("name") and one.get("email")),
        links=tuple(sorted(urls.items())),
        keywords=tuple(str(one) for one in facts.get("keywords") or ()),
        license=terms if isinstance(terms, str) else "",
        **given,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, image = text.partition("=")
    if not (name and equals and image):
        raise LoadError(f"--related-image {text!r}: write NAME=IMAGE")
    return name, image


def _icon(path: Path) -> tuple[str, str]:
    kinds = {
        ".svg": "image/svg+xml",
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
        ".gif": "image/gif",
    }
    media = kinds.get(path.suffix.lower())
    if media is None:
        raise LoadError(f"--icon {path}: SVG, PNG, JPEG or GIF is expected")
    try:
        return base64.b64encode(path.read_bytes()).decode(), media
    except OSError as problem:
        raise LoadError(f"--icon {path}: {problem.strerror}") from None


def _samples(directory: Path) -> list[dict[str, Any]]:
    if not directory.is_dir() or not any(directory.rglob("*.y*ml")):
        return []
    from steersman.manifest_files import read

    manifests, problems = read([directory])
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)  # noqa: T201 - the terminal
    return [one.body for one in manifests]
