"""`steersman create api` and `create webhook`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.scaffolding.output import (
    Directory,
    Domain,
    Force,
    Group,
    Kind,
    Output,
    Path_,
    Version,
    carry_out,
    external,
    telling,
)

__all__ = ["app"]

app = typer.Typer(name="create", help="Add a kind, a controller or a webhook to a project.", no_args_is_help=True)


@app.command("api")
def api(
    group: Group,
    version: Version,
    kind: Kind,
    plural: Annotated[str | None, typer.Option("--plural", help="The plural, if it is not the default.")] = None,
    namespaced: Annotated[
        bool | None, typer.Option("--namespaced/--no-namespaced", help="Whether the kind is namespaced.")
    ] = None,
    resource: Annotated[
        bool | None,
        typer.Option("--resource/--no-resource", help="Whether to create the type; --resource=false if it exists."),
    ] = None,
    controller: Annotated[
        bool | None, typer.Option("--controller/--no-controller", help="Whether to create a controller.")
    ] = None,
    controller_name: Annotated[str, typer.Option("--controller-name", help="For a second controller of a kind.")] = "",
    external_api_path: Path_ = "",
    external_api_domain: Domain = "",
    *,
    force: Force = False,
    directory: Directory = Path(),
    output: Output = "text",
) -> None:
    """Add a version of a kind, with its controller, sample and tests.

    A second version of a kind gets no controller of its own. With --no-resource the controller is for an existing kind:
    of this project, of Kubernetes (`--group apps --version v1 --kind Deployment`), or of another operator.
    """
    with telling():
        from steersman.scaffold import ApiOptions, create_api, files_between, open_project, update_files

        root = directory.resolve()
        options = ApiOptions(
            group, version, kind, plural, namespaced, resource, controller, controller_name,
            external(external_api_path, external_api_domain), force,
        )  # fmt: skip
        before = open_project(root)
        project = create_api(before, options)
        named = [r for r in project.resources if (r.group, r.version, r.kind) == (group, version, kind) and r.api]
        own = files_between(project.without_resource(named[0]), project) if named and force else frozenset[str]()
        outcome = update_files(root, project, rewrite=own)
    mine = named[0] if named and before.find(*named[0].key) is None else None
    hints = [f"Edit {mine.path.replace('.', '/')}.py, then run `make manifests`"] if mine and mine.api else []
    carry_out(outcome, output, *hints)


@app.command("webhook")
def webhook(
    group: Group,
    version: Version,
    kind: Kind,
    *,
    defaulting: Annotated[bool, typer.Option("--defaulting", help="A webhook that sets defaults.")] = False,
    programmatic_validation: Annotated[
        bool, typer.Option("--programmatic-validation", help="A webhook that rejects invalid objects.")
    ] = False,
    conversion: Annotated[
        bool, typer.Option("--conversion", help="Convert between this version, the hub, and others.")
    ] = False,
    spoke: Annotated[
        list[str] | None, typer.Option("--spoke", help="A version that converts to and from the hub; may be repeated.")
    ] = None,
    external_api_path: Path_ = "",
    external_api_domain: Domain = "",
    force: Force = False,
    directory: Directory = Path(),
    output: Output = "text",
) -> None:
    """Add webhooks to a kind: of this project, of Kubernetes (`--group core --version v1 --kind Pod`), or of others."""
    with telling():
        from steersman.scaffold import (
            WebhookOptions,
            create_webhook,
            delete_webhook,
            files_between,
            open_project,
            update_files,
        )

        root = directory.resolve()
        options = WebhookOptions(
            group, version, kind, defaulting, programmatic_validation, conversion,
            tuple(word for one in spoke or () for word in one.split(",")),
            external(external_api_path, external_api_domain), force,
        )  # fmt: skip
        project = create_webhook(open_project(root), options)
        own = files_between(delete_webhook(project, options), project) if force else frozenset[str]()
        outcome = update_files(root, project, rewrite=own)
    edit = [path for path in outcome.created if "/webhooks/" in path and not path.endswith("__init__.py")]
    carry_out(outcome, output, *(f"Edit {path}" for path in edit))
