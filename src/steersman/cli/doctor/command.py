"""`steersman doctor`: finds problems that keep an operator from working, with solutions. It changes nothing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from steersman.cli.operator_loader import LoadError, load_operator
from steersman.cli.target import project_operator

if TYPE_CHECKING:
    from steersman.cli.doctor.findings import Finding
    from steersman.operator.operator import Operator

__all__ = ["doctor"]

_TIMEOUT = 60.0


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:OPERATOR]",
            help="An operator, to check its permissions and CRDs, too (default: that of this project).",
        ),
    ] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="Kubeconfig file.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    as_: Annotated[
        str | None, typer.Option("--as", help="User to impersonate, such as the operator's ServiceAccount.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the operator; default: NAME-system.")
    ] = None,
    watch_namespace: Annotated[
        list[str] | None,
        typer.Option("--watch-namespace", help="Namespace to watch; may be repeated; default: all."),
    ] = None,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Check the configuration, the cluster, the permissions, the CRDs, the webhooks, the clock.

    Each check prints one line, and a hint if it finds a problem. Exits with 1 when a check fails; warnings do not
    count. Nothing is changed in the cluster.
    """
    if target is None and Path("PROJECT").is_file():
        target = project_operator()
    operator = load_operator(target) if target else None
    root = _project_of(target)
    findings = asyncio.run(_examine(operator, root, kubeconfig, context, as_, namespace, tuple(watch_namespace or ())))
    counts = Counter(finding.level for finding in findings)
    if output == "json":
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            typer.echo(f"{finding.level:4}  {finding.check}: {finding.text}")
            if finding.hint:
                typer.echo(f"      {finding.hint}")
        summary = ", ".join(f"{counts[level]} {word}" for level, word in (("fail", "failed"), ("warn", "warnings")))
        typer.echo(summary if counts["fail"] or counts["warn"] else "no problems found")
    if counts["fail"]:
        raise typer.Exit(1)


def _project_of(target: str | None) -> Path:
    """Return the directory with the operator's `pyproject.toml`: this one, or the nearest one above its module."""
    here = Path.cwd()
    module = sys.modules.get((target or "").partition(":")[0].partition(".")[0])
    file = getattr(module, "__file__", None)
    above = Path(file).resolve().parents if file else ()
    return next((place for place in (here, *above) if (place / "pyproject.toml").is_file()), here)


async def _examine(
    operator: Operator | None,
    root: Path,
    kubeconfig: str | None,
    context: str | None,
    user: str | None,
    namespace: str | None,
    namespaces: tuple[str, ...],
) -> list[Finding]:
    from steersman.cli.doctor import checks
    from steersman.cli.doctor.findings import Finding
    from steersman.client import Client
    from steersman.client.config import ConfigError, CredentialError, Impersonation, load_config
    from steersman.client.errors import ClientError, Unauthorized

    found = [*checks.check_local(sys.version_info[:3]), *checks.check_imports(root)]
    try:
        config = load_config(kubeconfig, context)
    except ConfigError as problem:
        return [*found, Finding("fail", "kubeconfig", str(problem))]
    if user:
        config = replace(config, impersonate=Impersonation(user=user))
    found += checks.check_config(config, _files(kubeconfig))
    async with Client.from_config(config) as client:
        try:
            async with asyncio.timeout(_TIMEOUT):
                found += [f async for f in checks.check_server(client)]
                for check in _server_checks(client, operator, namespace, namespaces):
                    found += await _guarded(check)
        except Unauthorized:
            found.append(_refused(config.context, _files(kubeconfig)))
        except CredentialError as problem:
            found.append(Finding("fail", "identity", f"no credentials: {problem}"))
        except (ClientError, TimeoutError) as problem:
            hint = "is the cluster running, and the server's address right?"
            found.append(Finding("fail", "server", str(problem) or "no response within a minute", hint))
    return found


def _refused(context: str, files: list[Path]) -> Finding:
    """Return the finding of a 401 response, which would fail every other check, too."""
    from steersman.cli.doctor.findings import Finding

    whose = f"the credentials of context {context!r}" if context else "the credentials"
    where = f" in {', '.join(map(str, files))}" if context else ""
    text = f"the API server refused {whose} (401 Unauthorized); nothing else was checked"
    hint = (
        f"log in again, or renew the token or client certificate{where}; `kubectl auth whoami` shows whether they work"
    )
    return Finding("fail", "identity", text, hint)


def _server_checks(
    client: Any, operator: Operator | None, namespace: str | None, namespaces: tuple[str, ...]
) -> list[Any]:
    from steersman.cli.doctor import checks
    from steersman.cli.doctor.webhook_checks import check_webhooks

    found: list[AsyncIterator[Finding]] = [checks.check_clock(client, time.time), checks.check_identity(client)]
    if operator is not None:
        from steersman.cli.rbac import grants
        from steersman.manifests import ManifestError, classes_of, crds

        classes = classes_of(operator)
        try:
            wanted = crds(classes)
        except ManifestError as wrong:
            raise LoadError("\nerror: ".join(wrong.problems), 1) from None
        own = {cls.__resource__.crd_name for cls in classes}
        infos = [view.info for view in operator.kinds()]
        needed = [(i.api_version, i.plural) for i in infos if f"{i.plural}.{i.group}" not in own]
        found.append(
            checks.check_permissions(client, grants(operator, namespace, namespaces, secure=False, certificates=False))
        )
        found.append(checks.check_crds(client, wanted, sorted(set(needed))))
    return [*found, check_webhooks(client, datetime.now(UTC))]


async def _guarded(check: AsyncIterator[Finding]) -> list[Finding]:
    """Return the findings of one check; an API error is a finding, too. Raises `Unauthorized`."""
    from steersman.cli.doctor.findings import Finding
    from steersman.client.errors import ApiError, Unauthorized

    found: list[Finding] = []
    try:
        while True:
            found.append(await anext(check))
    except StopAsyncIteration:
        pass
    except Unauthorized:
        raise
    except ApiError as problem:
        found.append(Finding("skip", getattr(check, "__name__", "check").removeprefix("check_"), str(problem)))
    return found


def _files(kubeconfig: str | None) -> list[Path]:
    if kubeconfig:
        return [Path(kubeconfig)]
    named = os.environ.get("KUBECONFIG", "")
    if named:
        return [Path(part) for part in named.split(os.pathsep) if part]
    return [Path.home() / ".kube" / "config"]
