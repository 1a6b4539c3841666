"""The checks of `steersman doctor`, one function each: they yield findings and write nothing.

A finding is a level, a subject, a text and, for a problem, a hint. A check that lacks a permission is reported as
skipped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

from steersman.cli.doctor.findings import CRDS, Finding, Level, get, post
from steersman.client import Client
from steersman.client.errors import ApiError, Forbidden, NotFound
from steersman.manifests.permissions.grants import Grant
from steersman.version import __version__

__all__ = [
    "check_clock",
    "check_config",
    "check_crds",
    "check_identity",
    "check_imports",
    "check_local",
    "check_permissions",
    "check_server",
]

_OLDEST: Final[tuple[int, ...]] = (1, 29)
"""The Kubernetes version in which CEL rules of CRDs became stable."""
_NEWEST: Final[tuple[int, ...]] = (1, 36)
"""The newest version that the tests run against."""
_SELECTABLE: Final[tuple[int, ...]] = (1, 32)
_PYTHON: Final = (3, 11)
_CLOCK_WARN: Final = 2.0
_CLOCK_FAIL: Final = 10.0


def check_local(python: tuple[int, int, int]) -> Iterator[Finding]:
    """Check the Python interpreter and the version of this package."""
    version = ".".join(map(str, python))
    if python[:2] < _PYTHON:
        yield Finding("fail", "versions", f"Python {version}", "use Python 3.11 or newer")
    else:
        yield Finding("ok", "versions", f"Steersman {__version__}, Python {version}, {sys.platform}")


def check_imports(root: Path) -> Iterator[Finding]:
    """Check for modules that the image would lack; yields nothing for a directory without a project."""
    from steersman.cli.packaging.imports import find_problems

    if not (root / "pyproject.toml").is_file():
        return
    try:
        problems = find_problems(root)
    except (OSError, ValueError) as problem:
        yield Finding("fail", "imports", f"{root / 'pyproject.toml'}: {problem}")
        return
    for problem in problems:
        level: Level = "fail" if problem.certain else "warn"
        yield Finding(level, "imports", f"{problem.place}: {problem.text}", problem.hint)
    if not problems:
        yield Finding("ok", "imports", "each imported module belongs to a declared dependency")


def check_config(config: Any, files: Iterable[Path]) -> Iterator[Finding]:
    """Check the kubeconfig: the context, TLS, and the file mode of the credentials."""
    where = f"context {config.context!r}, " if config.context else ""
    yield Finding("ok", "kubeconfig", f"{where}{config.server}, namespace {config.namespace}")
    if config.tls.insecure:
        hint = "give the cluster's certificate authority, and remove insecure-skip-tls-verify"
        yield Finding("warn", "kubeconfig", "the server's certificate is not verified", hint)
    for file in files:
        try:
            mode = file.stat().st_mode & 0o077
        except OSError:
            continue
        if mode & 0o044:
            yield Finding("warn", "kubeconfig", f"{file} can be read by others", f"chmod 600 {file}")


async def check_server(client: Client) -> AsyncIterator[Finding]:
    """Compare the version of the API server with the tested versions."""
    found = await client.server_version()
    numbers = re.match(r"v?(\d+)\.(\d+)", found.git_version or f"{found.major}.{found.minor}")
    version = tuple(int(number) for number in numbers.groups()) if numbers else ()
    text = f"Kubernetes {found.git_version}"
    if not numbers:
        yield Finding("warn", "server", f"{text}: an unknown version", "")
    elif version < _OLDEST:
        yield Finding("fail", "server", f"{text} is too old: CRDs have no CEL rules", "upgrade to 1.29 or newer")
    elif version < _SELECTABLE:
        yield Finding("warn", "server", f"{text} ignores Selectable fields", "upgrade to 1.32, or use labels")
    elif version > _NEWEST:
        yield Finding("ok", "server", f"{text}, newer than the versions that this release is tested with")
    else:
        yield Finding("ok", "server", text)


async def check_clock(client: Client, now: Callable[[], float]) -> AsyncIterator[Finding]:
    """Compare the local clock with the `Date` header of the server, which has whole seconds."""
    before = now()
    answer = await client.raw.request("GET", "/version")
    after = now()
    date = answer.headers.get("date")
    if date is None:
        yield Finding("skip", "clock", "the server's responses have no Date header")
        return
    theirs = parsedate_to_datetime(date).timestamp()
    # The server's second began in [theirs, theirs + 1), and the request took place in [before, after].
    skew = max(theirs - after, before - theirs - 1.0, 0.0)
    sign = "behind" if theirs > after else "ahead"
    if skew >= _CLOCK_WARN:
        level: Level = "fail" if skew >= _CLOCK_FAIL else "warn"
        text = f"this machine's clock is {skew:.0f} s {sign}"
        yield Finding(
            level, "clock", text, "synchronise it (chrony, systemd-timesyncd): tokens and leases depend on it"
        )
    else:
        yield Finding("ok", "clock", "differs from the API server's by less than 2 s")


async def check_identity(client: Client) -> AsyncIterator[Finding]:
    """Report the user name that the server assigns to the credentials."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await post(client, "/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    except (NotFound, Forbidden):
        yield Finding("skip", "identity", "the server does not report the user")
        return
    user: dict[str, Any] = answer["status"].get("userInfo") or {}
    groups = ", ".join(user.get("groups") or ())
    if user.get("username") == "system:anonymous":
        yield Finding("fail", "identity", "the server treats the requests as anonymous", "configure credentials")
    else:
        yield Finding("ok", "identity", f"{user.get('username')}" + (f" of {groups}" if groups else ""))


async def check_permissions(client: Client, grants: Sequence[Grant]) -> AsyncIterator[Finding]:
    """Check the permissions of the operator's roles, one by one, because wildcards and several roles add up."""
    missing = [grant for grant in grants if not await _may(client, grant)]
    for grant in missing[:10]:
        hint = "apply config/rbac (`steersman manifests`), or run as its ServiceAccount with --as"
        yield Finding("fail", "permissions", f"not allowed to {grant}", hint)
    if len(missing) > 10:
        yield Finding("fail", "permissions", f"{len(missing) - 10} more permissions are missing", "apply config/rbac")
    if not missing:
        yield Finding("ok", "permissions", f"all {len(grants)} permissions of the operator's roles are granted")


async def _may(client: Client, grant: Grant) -> bool:
    resource, _, subresource = grant.resource.partition("/")
    attributes: dict[str, Any] = {"verb": grant.verb}
    if grant.path:
        spec: dict[str, Any] = {"nonResourceAttributes": {**attributes, "path": grant.path}}
    else:
        attributes |= {"group": grant.group, "resource": resource, "subresource": subresource}
        attributes |= {"namespace": grant.namespace, "name": grant.names[0] if grant.names else ""}
        spec = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    answer = await post(client, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(answer["status"].get("allowed"))


async def check_crds(
    client: Client, wanted: Sequence[Mapping[str, Any]], needed: Sequence[tuple[str, str]]
) -> AsyncIterator[Finding]:
    """Check that the operator's CRDs are installed as defined, and that all other kinds it uses are served."""
    from steersman.manifests.compat import changes_between

    for crd in wanted:
        name = str(crd["metadata"]["name"])
        try:
            live = await get(client, f"{CRDS}/{name}")
        except NotFound:
            yield Finding(
                "fail", "crds", f"{name} is not installed", "steersman install, or kubectl apply -f config/crd/bases"
            )
            continue
        except Forbidden:
            yield Finding("skip", "crds", f"{name}: not allowed to get CRDs")
            continue
        problems = list(_crd_problems(name, live))
        for problem in problems:
            yield problem
        if problems:
            continue
        changes = [c for c in changes_between([live], [crd]) if c.severity != "note"]
        if changes:
            more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
            text = f"{name} differs from the operator's CRD: {changes[0]}{more}"
            yield Finding(
                "warn", "crds", text, "steersman install; `steersman diff --cluster config/crd` shows what changes"
            )
        else:
            served = ", ".join(v["name"] for v in live["spec"]["versions"] if v.get("served"))
            yield Finding("ok", "crds", f"{name} is installed and serves {served}")
    for api_version, plural in needed:
        found = await _served(client, api_version)
        if found is not None and plural not in found:
            yield Finding("fail", "crds", f"{plural} of {api_version} is not served", "install its CRD or API server")


def _crd_problems(name: str, live: Mapping[str, Any]) -> Iterator[Finding]:
    status: Mapping[str, Any] = live.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    if live["metadata"].get("deletionTimestamp"):
        hint = "its objects are being deleted: look for finalizers that no controller removes"
        yield Finding("fail", "crds", f"{name} is being deleted", hint)
    elif conditions.get("NamesAccepted", {}).get("status") == "False":
        yield Finding("fail", "crds", f"{name}: {conditions['NamesAccepted'].get('message', '')}", "use another name")
    elif conditions.get("Established", {}).get("status") != "True":
        yield Finding("fail", "crds", f"{name} is not established", f"kubectl describe crd {name}")
    schema = conditions.get("NonStructuralSchema", {})
    if schema.get("status") == "True":
        yield Finding("fail", "crds", f"{name}: {schema.get('message', '')}", "make its schema structural")


async def _served(client: Client, api_version: str) -> set[str] | None:
    try:
        return {resource.name for resource in await client.discover(api_version)}
    except NotFound:
        return set()
    except ApiError:
        return None
