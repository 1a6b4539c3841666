"""Flags of kubebuilder and operator-sdk in published tutorials: accepted, translated, or ignored with a note."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from steersman.cli.operator_loader import LoadError

__all__ = ["translate"]

_COMMANDS: Final = ("init", "create", "edit", "delete")
_PAIRS: Final = {"controller", "multigroup", "namespaced", "resource"}
_FLAGS: Final = {"conversion", "defaulting", "force", "programmatic-validation"}
_IGNORED_OPTIONS: Final = {
    "repo": "a Python project has no Go module path",
    "plugins": "there is one layout of projects",
    "project-version": "there is one layout of projects",
    "component-config": "settings are flags and variables of `steersman run`",
    "make": "`make manifests` runs with each change of the project",
    "fetch-deps": "`make dev-env` installs the dependencies",
    "skip-go-version-check": "no Go is needed",
    "pattern": "there is one pattern of controllers",
    "crd-version": "CRDs are of apiextensions.k8s.io/v1",
    "webhook-version": "webhook configurations are of admissionregistration.k8s.io/v1",
}
"""Ignored flags by name, each with the reason."""
_SWITCHES: Final = {"make", "fetch-deps", "skip-go-version-check", "component-config"}
"""Flags without a value, unless it is joined by `=`."""
_TYPES: Final = {
    "mutating": "--defaulting",
    "defaulting": "--defaulting",
    "validating": "--programmatic-validation",
    "validation": "--programmatic-validation",
    "conversion": "--conversion",
}
_LICENSES: Final = {"apache2": "Apache-2.0", "copyright": "", "none": ""}
_DEFAULT_OPERATIONS: Final = {"create", "update"}


def translate(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the command line with our options, and notes for the user.

    Raises:
        LoadError: `--type` names no type of webhook.
    """
    if words[:1] == [] or words[0] not in _COMMANDS:
        return words, []
    translated: list[str] = []
    notes: list[str] = []
    given = iter(words)
    for word in given:
        option, joined, value = word.partition("=")
        name = option.removeprefix("--")
        if not option.startswith("--"):
            translated.append(word)
        elif name in _IGNORED_OPTIONS:
            if not joined and name not in _SWITCHES:
                next(given, "")
            notes.append(f"{option} is ignored: {_IGNORED_OPTIONS[name]}")
        elif name in ("type", "operations", "license"):
            value = value if joined else next(given, "")
            translated += _valued(name, value, notes)
        else:
            translated += _flag(word)
    return translated, notes


def _valued(name: str, value: str, notes: list[str]) -> Iterator[str]:
    if name == "license":
        yield from ("--license", _LICENSES.get(value, value))
        return
    words = [word for word in value.lower().split(",") if word]
    if name == "operations":
        if set(words) != _DEFAULT_OPERATIONS:
            arguments = ", ".join(f'"{word}"' for word in words)
            comma = "," if len(words) == 1 else ""
            notes.append(
                f"--operations is ignored: write on=({arguments}{comma}) into the decorator of the webhook's function"
            )
        return
    for word in words:
        if word not in _TYPES:
            raise LoadError(f"--type {word!r}: expected mutating, validating or conversion")
        notes.append(f"--type {word} is read as {_TYPES[word]}")
        yield _TYPES[word]


def _flag(word: str) -> list[str]:
    """Translate `--resource=false` and similar flags to `--no-resource`."""
    option, _, value = word.partition("=")
    name = option.removeprefix("--")
    if value not in ("true", "false") or name not in _PAIRS | _FLAGS:
        return [word]
    if value == "true":
        return [option]
    return [f"--no-{name}"] if name in _PAIRS else []
