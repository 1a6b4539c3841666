"""Checks of the names of projects, groups, versions and kinds, and names that are derived from them.

A name becomes a DNS label in the API, a class and a module in Python, and a file, so it must be valid for all of them.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from typing import Final

from steersman.scaffold.errors import ScaffoldError

__all__ = [
    "check_domain",
    "check_group",
    "check_kind",
    "check_module",
    "check_package",
    "check_plural",
    "check_project_name",
    "check_version",
    "module_name",
    "version_order",
]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VERSION: Final = re.compile(r"v([1-9][0-9]{0,3})(?:(alpha|beta)([1-9][0-9]{0,3}))?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,49}")

_RESERVED: Final = {
    "Conditions", "Context", "FieldError", "Invalid", "META", "Model", "OBJECT", "ObjectMeta", "PROJECT", "Path",
    "Resource", "SAMPLE", *dir(builtins),
}  # fmt: skip
"""Names that generated modules use, and Python's builtins."""


def check_project_name(name: str) -> str:
    """Check a DNS label, which names the Operator, its Lease and its namespace."""
    if not _LABEL.fullmatch(name):
        raise ScaffoldError(
            f"project name {name!r}: lower-case letters, digits and '-', at most 63; --project-name sets it"
        )
    return name


def check_package(name: str) -> str:
    """Check an importable name that does not hide another module."""
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or name != name.lower():
        raise ScaffoldError(f"package {name!r}: not a lower-case Python name; --package sets it")
    if name in sys.stdlib_module_names or name in {"steersman", "tests", "config", "pytest", "site"}:
        raise ScaffoldError(f"package {name!r} would hide another module of that name; --package sets it")
    return name


def check_domain(domain: str) -> str:
    """Check a DNS subdomain."""
    if not _SUBDOMAIN.fullmatch(domain) or len(domain) > 200:
        raise ScaffoldError(f"domain {domain!r}: a DNS name in lower case, such as example.com")
    return domain


def check_group(group: str) -> str:
    """Check a DNS label or subdomain, or an empty string: then the domain is the group."""
    if group and (not _SUBDOMAIN.fullmatch(group) or len(group) > 50):
        raise ScaffoldError(f"group {group!r}: a DNS name in lower case, at most 50 characters, such as apps")
    check_module(module_name(group) or "api", f"group {group!r}")
    return group


def check_version(version: str) -> str:
    """Check an API version: v1, v1beta1, v2alpha3."""
    if not _VERSION.fullmatch(version):
        raise ScaffoldError(f"version {version!r}: v1, v1beta1, v1alpha1 and the like")
    return version


def check_kind(kind: str) -> str:
    """Check a class name in Pascal case."""
    if not _KIND.fullmatch(kind):
        raise ScaffoldError(f"kind {kind!r}: Pascal case, letters and digits, at most 50, such as HelloApp")
    if kind in _RESERVED:
        raise ScaffoldError(f"kind {kind!r} is reserved: generated code uses this name")
    return kind


def check_plural(plural: str) -> str:
    """Check a DNS label."""
    if not _LABEL.fullmatch(plural):
        raise ScaffoldError(f"plural {plural!r}: lower-case letters, digits and '-', at most 63")
    return plural


def check_module(name: str, what: str) -> str:
    """Check the name of a module."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ScaffoldError(f"{what} cannot be the name of a Python module: it starts with a digit or is a keyword")
    return name


def module_name(name: str) -> str:
    """Return the Python name of a group or project."""
    return re.sub(r"[-.]", "_", name).lower()


def version_order(version: str) -> tuple[int, int, int]:
    """Return a sort key like that of the API server, the most stable version last: v1alpha1, v1beta1, v1, v2."""
    matched = _VERSION.fullmatch(version)
    if matched is None:
        return (-1, 0, 0)
    major, stage, minor = matched.groups()
    return ({"alpha": 0, "beta": 1, None: 2}[stage], int(major), int(minor or 0))
