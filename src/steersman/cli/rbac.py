"""`steersman rbac`: shows the permissions of an operator, and compares them with its use in an audit log."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from steersman.cli.operator_loader import LoadError, load_operator
from steersman.cli.target import Target

if TYPE_CHECKING:
    from steersman.manifests.permissions.audit_usage import Comparison, Missing, ObservedRequest
    from steersman.manifests.permissions.grants import Grant
    from steersman.operator.operator import Operator

__all__ = ["rbac"]


def rbac(
    target: Target,
    from_audit: Annotated[
        list[str] | None,
        typer.Option("--from-audit", metavar="LOG", help="An audit log, or - for stdin; may be repeated."),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", help="The user whose requests count; by default the operator's ServiceAccount."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the operator; default: NAME-system.")
    ] = None,
    watch_namespace: Annotated[
        list[str] | None,
        typer.Option("--watch-namespace", help="Namespace to watch; may be repeated; default: all."),
    ] = None,
    *,
    secure_metrics: Annotated[
        bool, typer.Option("--secure-metrics", help="Include the roles for metrics over TLS.")
    ] = False,
    certificates: Annotated[
        Literal["self-managed", "cert-manager"],
        typer.Option("--certificates", help="The source of the certificates of webhooks."),
    ] = "self-managed",
    install_crds: Annotated[
        bool, typer.Option("--install-crds", help="Include the role of operators that install their CRDs.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Also fail for permissions that were never used.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Show the permissions of an operator, or compare them with their use.

    Without an audit log, the permissions of the generated roles are listed.

    With `--from-audit LOG`, the requests in the API server's audit log are compared with them: missing permissions
    (exit code 1) and unused ones are listed. A log of a test run under the generated identity is good; one of a week in
    production is better. `steersman cluster start` and the test kit write such logs.
    """
    operator = load_operator(target)
    where = tuple(watch_namespace or ())
    allowed = partial(
        grants,
        operator,
        namespaces=where,
        secure=secure_metrics,
        certificates=certificates == "self-managed",
        install_crds=install_crds,
    )
    if not from_audit:
        _list(allowed(namespace), output)
        return
    seen = _seen(from_audit, operator, tuple(user or ()), namespace)
    if not user:
        namespace = _home(seen, namespace)
    from steersman.manifests.permissions.audit_usage import compare_use

    found = compare_use(seen, allowed(namespace))
    if output == "json":
        typer.echo(json.dumps(as_json(found), indent=2))
    else:
        _print_comparison(found)
    if found.missing or (strict and found.unused):
        raise typer.Exit(1)


def grants(
    operator: Operator,
    namespace: str | None,
    namespaces: tuple[str, ...],
    *,
    secure: bool,
    certificates: bool,
    install_crds: bool = False,
) -> list[Grant]:
    """Return the permissions of the operator's ServiceAccount in the generated roles.

    Args:
        operator: The operator.
        namespace: The namespace of the ServiceAccount.
        namespaces: The watched namespaces; empty for all.
        secure: Whether metrics are served over TLS with authorization.
        certificates: Whether the operator manages the certificates of its webhooks.
        install_crds: Whether the operator installs its CRDs.
    """
    from steersman.manifests import rbac as objects
    from steersman.manifests.permissions.grants import grants_of

    home = namespace or f"{operator.name}-system"
    made = objects(
        operator,
        namespace=home,
        namespaces=namespaces,
        secure_metrics=secure,
        webhook_certificates=certificates,
        install_crds=install_crds,
    )
    return grants_of(made, (home, operator.name))


def _seen(logs: list[str], operator: Operator, users: tuple[str, ...], namespace: str | None) -> list[ObservedRequest]:
    from steersman.manifests.permissions.audit_usage import AuditLogError, observed_requests, read_events

    home = re.escape(namespace) if namespace else "[^:]+"
    account = re.compile(f"system:serviceaccount:{home}:{re.escape(operator.name)}")
    others: set[str] = set()

    def mine(name: str) -> bool:
        chosen = name in users if users else account.fullmatch(name) is not None
        if not chosen and name and not name.startswith("system:kube-"):
            others.add(name)
        return chosen

    found: list[ObservedRequest] = []
    for log in logs:
        try:
            for lines in _lines(log):
                found += observed_requests(read_events(lines, log), mine)
        except AuditLogError as wrong:
            raise LoadError(str(wrong)) from None
        except UnicodeDecodeError:
            raise LoadError(f"{log}: not text; an audit log has one JSON object a line") from None
        except OSError as problem:
            raise LoadError(f"{log}: {problem.strerror}") from None
    if not found:
        subject = (
            " or ".join(users)
            if users
            else f"a ServiceAccount {operator.name!r}" + (f" in {namespace}" if namespace else "")
        )
        hint = f"; it has those of {', '.join(sorted(others)[:8])}: name one with --user" if others else ""
        raise LoadError(f"{', '.join(logs)}: no request of {subject}{hint}")
    return found


def _lines(log: str) -> Iterator[Iterable[str]]:
    with nullcontext(sys.stdin) if log == "-" else Path(log).open(encoding="utf-8") as lines:
        yield lines


def _home(seen: list[ObservedRequest], namespace: str | None) -> str:
    """Return the namespace of the ServiceAccount."""
    found = sorted({one.user.split(":")[2] for one in seen})
    if namespace is None and len(found) > 1:
        raise LoadError(f"the log has operators of that name in {', '.join(found)}: choose one with --namespace")
    return found[0]


def _list(granted: list[Grant], output: str) -> None:
    if output == "json":
        typer.echo(json.dumps([_grant(grant) for grant in granted], indent=2))
        return
    for line in _lines_of(granted):
        typer.echo(line)


def _lines_of(grants: Iterable[Grant]) -> list[str]:
    """Return one line for all verbs on the same resource: `get, list pods  (role)`."""
    together: dict[tuple[str, Grant], list[str]] = {}
    for grant in sorted(grants, key=lambda g: (g.role, g.group, g.resource, g.path, g.verb)):
        together.setdefault((grant.role, replace(grant, verb="")), []).append(grant.verb)
    return [f"{', '.join(verbs)}{grant}  ({role})" for (role, grant), verbs in together.items()]


def as_json(found: Comparison) -> dict[str, Any]:
    """Return the comparison as plain data with a fixed set of keys."""
    return {
        "users": list(found.users),
        "requests": found.requests,
        "missing": [_missing(m) for m in found.missing],
        "unused": [_grant(g) for g in found.unused],
        "unseen": [_grant(g) for g in found.unseen],
    }


def _missing(missing: Missing) -> dict[str, Any]:
    request = missing.request
    what: dict[str, Any] = {"verb": request.verb}
    if request.path:
        what["path"] = request.path
    else:
        what |= {"group": request.group, "resource": request.resource, "namespace": request.namespace}
    return {**what, "names": list(missing.names), "requests": missing.requests, "refused": missing.refused}


def _grant(grant: Grant) -> dict[str, Any]:
    if grant.path:
        return {"verb": grant.verb, "path": grant.path, "role": grant.role}
    what: dict[str, Any] = {"verb": grant.verb, "group": grant.group, "resource": grant.resource}
    return {**what, "namespace": grant.namespace, "names": list(grant.names), "role": grant.role}


def _print_comparison(found: Comparison) -> None:
    if found.missing:
        typer.echo(_counted(len(found.missing), "permission is", "permissions are") + " missing:")
        for missing in found.missing:
            refused = f", {missing.refused} refused" if missing.refused else ""
            names = f"; for {', '.join(missing.names)}" if missing.names else ""
            requests = _counted(missing.requests, "request", "requests")
            typer.echo(f"  {missing.request}  ({requests}{refused}{names}){_advice(missing)}")
    if found.unused:
        typer.echo(_counted(len(found.unused), "permission was", "permissions were") + " never used:")
        for line in _lines_of(found.unused):
            typer.echo(f"  {line}")
    if found.unseen:
        typer.echo("not visible in an audit log, so not compared:")
        for line in _lines_of(found.unseen):
            typer.echo(f"  {line}")
    if not found.missing:
        typer.echo("nothing is missing")
    typer.echo(f"compared with {_counted(found.requests, 'request', 'requests')} of {', '.join(found.users)}")


def _advice(missing: Missing) -> str:
    request = missing.request
    resource, _, subresource = request.resource.partition("/")
    if not resource:
        return ""
    more = f', subresource="{subresource}"' if subresource else ""
    return f'\n    declare it, or operator.permit("{request.verb}", <kind of {resource}>{more})'


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
