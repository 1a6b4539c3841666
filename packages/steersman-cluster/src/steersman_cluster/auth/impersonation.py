"""Impersonation: the `Impersonate-*` headers, and the permissions that they need.

Constrained impersonation (`impersonate:user-info` on the user and `impersonate-on:user-info:<verb>` on the requested
resource) is tried first, then the verb `impersonate`.

Source:
    KEP-5284.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from msgspec.structs import replace

from steersman_cluster.auth.attributes import Attributes, forbidden_error, quoted
from steersman_cluster.auth.authentication import Headers
from steersman_cluster.auth.rbac import MASTERS, Authorizer
from steersman_cluster.auth.tokens import account_groups, split_account
from steersman_cluster.errors import APIError, bad_request
from steersman_cluster.strategy import User

__all__ = ["Impersonation", "is_impersonating"]

_GROUP = "authentication.k8s.io"
_MAX_SINGLE_CHECKS = 4
_MODES = ("associated-node", "arbitrary-node", "serviceaccount", "user-info", "")
_NODE = re.compile(r"system:node:([a-z0-9]([-a-z0-9.]*[a-z0-9])?)")
_EXTRA_KEY = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_MAX_CACHED_DECISIONS = 10_000


def is_impersonating(headers: Headers) -> bool:
    """Return whether a request has impersonation headers; cheap, because most requests have none."""
    return any(name[:12].lower() == "impersonate-" for name, _ in headers.items())


class Impersonation:
    """Determines the effective user of a request; the way that allowed a user last is tried first."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._last: dict[str, int] = {}

    def resolve(self, user: User, headers: Headers, attributes: Attributes) -> User:
        """The user that a request acts as: `user`, or the one that its headers name.

        Raises the API server's 400 where only part of a user is named and its 403 where `user` may not do this.
        """
        wanted = _requested(headers)
        if wanted is None:
            return user
        first: APIError | None = None
        last = self._last.get(user.name)
        order = [index for index in range(len(_MODES)) if index != last]
        for index in order if last is None else [last, *order]:
            mode = _MODES[index]
            if not _applies(mode, wanted, user):
                continue
            try:
                found = self._check(mode, user, wanted, attributes)
            except APIError as error:
                first = first or error
                continue
            if len(self._last) >= _MAX_CACHED_DECISIONS:
                self._last.clear()
            self._last[user.name] = index
            return found
        if first is None:
            raise forbidden_error(user, Attributes("impersonate", "", "v1", "users", "", "", wanted.name))
        raise first

    def _check(self, mode: str, user: User, wanted: User, attributes: Attributes) -> User:
        if mode:
            self._require(user, replace(attributes, verb=f"impersonate-on:{mode}:{attributes.verb}"))
        verb = f"impersonate:{mode}" if mode else "impersonate"
        group = _GROUP if mode else ""
        groups = wanted.groups
        asked = Attributes(verb, group, "v1", "users", "", "", wanted.name)
        if mode and (node := _NODE.fullmatch(wanted.name)):
            name = "*" if mode == "associated-node" else node.group(1)
            asked = replace(asked, resource="nodes", name=name)
            groups = ("system:nodes",)
        if (account := split_account(wanted.name)) is not None:
            asked = replace(asked, resource="serviceaccounts", namespace=account[0], name=account[1])
            groups = groups or account_groups(account[0])
        self._require(user, asked)
        if wanted.uid:
            self._require(user, Attributes(verb, _GROUP, "v1", "uids", "", "", wanted.uid))
        self._check_groups(user, verb, group, wanted.groups, constrained=bool(mode))
        self._check_extra(user, verb, wanted.extra, constrained=bool(mode))
        return User(wanted.name, wanted.uid, _completed(wanted.name, groups), wanted.extra)

    def _check_groups(self, user: User, verb: str, group: str, groups: Sequence[str], *, constrained: bool) -> None:
        asked = Attributes(verb, group, "v1", "groups")
        if constrained and "" in groups:
            raise forbidden_error(user, asked, "impersonating the empty string group is not allowed")
        if constrained and MASTERS in groups:
            asked = replace(asked, name=MASTERS)
            raise forbidden_error(user, asked, "impersonating the system:masters group is not allowed")
        if (
            constrained
            and len(groups) >= _MAX_SINGLE_CHECKS
            and self._authorizer.authorize(user, replace(asked, name="*"))[0]
        ):
            return
        for name in groups:
            self._require(user, replace(asked, name=name))

    def _check_extra(self, user: User, verb: str, extra: Mapping[str, Sequence[str]], *, constrained: bool) -> None:
        if not extra:
            return
        asked = Attributes(verb, _GROUP, "v1", "userextras")
        if constrained and (wrong := _extra_error(extra)):
            raise forbidden_error(user, asked, wrong)
        if constrained and (len(extra) >= _MAX_SINGLE_CHECKS or sum(map(len, extra.values())) >= _MAX_SINGLE_CHECKS):
            everything = replace(asked, subresource="*", name="*")
            if self._authorizer.authorize(user, everything)[0]:
                return
        for key, values in extra.items():
            for value in values:
                self._require(user, replace(asked, subresource=key, name=value))

    def _require(self, user: User, attributes: Attributes) -> None:
        self._authorizer.check(user, attributes)


def _applies(mode: str, wanted: User, user: User) -> bool:
    node, account = _NODE.fullmatch(wanted.name), split_account(wanted.name)
    only_name = not (wanted.uid or wanted.groups or wanted.extra)
    match mode:
        case "associated-node":
            mine = user.extra.get("authentication.kubernetes.io/node-name", ())
            return bool(node and only_name and split_account(user.name) and tuple(mine) == (node.group(1),))
        case "arbitrary-node":
            return bool(node) and only_name
        case "serviceaccount":
            return account is not None and only_name
        case "user-info":
            return node is None and account is None
        case _:
            return True


def _completed(name: str, groups: Sequence[str]) -> tuple[str, ...]:
    """The groups with `system:authenticated`, or for the anonymous user `system:unauthenticated`."""
    if name == "system:anonymous":
        missing = "system:unauthenticated"
    elif "system:unauthenticated" in groups:
        return tuple(groups)
    else:
        missing = "system:authenticated"
    return tuple(groups) if missing in groups else (*groups, missing)


def _requested(headers: Headers) -> User | None:
    name, uid, groups = "", "", list[str]()
    extra: dict[str, list[str]] = {}
    for header, value in headers.items():
        lowered = header.lower()
        if not lowered.startswith("impersonate-"):
            continue
        match lowered[12:]:
            case "user":
                name = name or value
            case "uid":
                uid = uid or value
            case "group":
                groups.append(value)
            case other if other.startswith("extra-"):
                extra.setdefault(unquote(other[6:]), []).append(value)
            case _:
                pass
    if not name:
        if uid or groups or extra:
            raise bad_request(f"requested {_go_user(uid, groups, extra)} without impersonating a user name")
        return None
    return User(name, uid, tuple(groups), {key: tuple(values) for key, values in extra.items()})


def _go_user(uid: str, groups: Sequence[str], extra: Mapping[str, Sequence[str]]) -> str:
    """A user without a name as Go prints it."""
    shown_groups = f"[]string{{{', '.join(map(quoted, groups))}}}" if groups else "[]string(nil)"
    items = (f"{quoted(key)}:[]string{{{', '.join(map(quoted, extra[key]))}}}" for key in sorted(extra))
    shown_extra = f"map[string][]string{{{', '.join(items)}}}" if extra else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:{quoted(uid)}, Groups:{shown_groups}, Extra:{shown_extra}}}'


def _extra_error(extra: Mapping[str, Sequence[str]]) -> str:
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if not _EXTRA_KEY.fullmatch(key):
            return f"impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {quoted(key)}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""
