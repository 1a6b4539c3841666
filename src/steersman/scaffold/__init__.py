"""Projects from templates: creation, changes of kinds, controllers and webhooks, and updates of the templates.

A project is a value (the `PROJECT` file). Its files are generated from it and from the templates, and a three-way merge
combines them with the changes of the user. Only development uses this package; an operator does not import it.
"""

from steersman.scaffold.errors import ScaffoldError
from steersman.scaffold.operations import (
    ApiOptions,
    External,
    WebhookOptions,
    create_api,
    create_webhook,
    delete_api,
    delete_webhook,
    edit,
)
from steersman.scaffold.project import Project, Resource, Webhooks
from steersman.scaffold.project_files import Outcome, initialise, open_project, update, update_files
from steersman.scaffold.render import files_between, render

__all__ = [
    "ApiOptions",
    "External",
    "Outcome",
    "Project",
    "Resource",
    "ScaffoldError",
    "WebhookOptions",
    "Webhooks",
    "create_api",
    "create_webhook",
    "delete_api",
    "delete_webhook",
    "edit",
    "files_between",
    "initialise",
    "open_project",
    "render",
    "update",
    "update_files",
]
