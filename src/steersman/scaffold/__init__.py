"""Projects from templates, and their further life: kinds, controllers and webhooks come, change and go.

A project is a value (`PROJECT`), its files follow from it and from the templates, and a three-way merge brings what
follows together with what its owner has written. Only development needs this room; an operator never loads it.
"""

from steersman.scaffold.errors import ScaffoldError
from steersman.scaffold.project import Project, Resource, Webhooks
from steersman.scaffold.render import files_between, render
from steersman.scaffold.wishes import (
    ApiWish,
    External,
    WebhookWish,
    create_api,
    create_webhook,
    delete_api,
    delete_webhook,
    edit,
)
from steersman.scaffold.work import Outcome, bring_in_line, initialise, open_project, update

__all__ = [
    "ApiWish",
    "External",
    "Outcome",
    "Project",
    "Resource",
    "ScaffoldError",
    "WebhookWish",
    "Webhooks",
    "bring_in_line",
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
]
