"""`steersman delete api` and `delete webhook`: the inverse of `create`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.scaffolding.output import (
    Directory,
    Domain,
    Group,
    Kind,
    Output,
    Version,
    carry_out,
    external,
    telling,
)

__all__ = ["app"]

app = typer.Typer(name="delete", help="Remove a kind or a webhook from a project.", no_args_is_help=True)

_Force = Annotated[
    bool, typer.Option("--force", "--yes", "-y", help="Also delete files that were changed since they were generated.")
]


@app.command("api")
def api(
    group: Group,
    version: Version,
    kind: Kind,
    external_api_domain: Domain = "",
    directory: Directory = Path(),
    output: Output = "text",
    *,
    force: _Force = False,
) -> None:
    """Remove a version of a kind with its controllers, webhooks, sample and tests.

    Generated files with changes of yours are deleted only with --force. The CRD in a cluster stays.
    """
    with telling():
        from steersman.scaffold import delete_api, open_project, update_files

        root = directory.resolve()
        project = delete_api(open_project(root), group, version, kind, external("", external_api_domain))
        outcome = update_files(root, project, force=force)
    carry_out(outcome, output)


@app.command("webhook")
def webhook(
    group: Group,
    version: Version,
    kind: Kind,
    *,
    defaulting: Annotated[bool, typer.Option("--defaulting", help="The webhook that sets defaults.")] = False,
    programmatic_validation: Annotated[
        bool, typer.Option("--programmatic-validation", help="The webhook that rejects invalid objects.")
    ] = False,
    conversion: Annotated[bool, typer.Option("--conversion", help="Conversion between versions.")] = False,
    external_api_domain: Domain = "",
    force: _Force = False,
    directory: Directory = Path(),
    output: Output = "text",
) -> None:
    """Remove the named webhooks of a kind, or all of them."""
    with telling():
        from steersman.scaffold import WebhookOptions, delete_webhook, open_project, update_files

        root = directory.resolve()
        options = WebhookOptions(
            group, version, kind, defaulting, programmatic_validation, conversion,
            external=external("", external_api_domain),
        )  # fmt: skip
        outcome = update_files(root, delete_webhook(open_project(root), options), force=force)
    carry_out(outcome, output)
