"""Impersonation: the user of the request, and the required permissions."""

from typing import Any

import pytest

from .harness import Both

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
LIST = "/api/v1/namespaces/{ns}/configmaps"


@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate-User": "jane"},
        {"Impersonate-User": "jane", "Impersonate-Group": "devs"},
        {"Impersonate-User": "jane", "Impersonate-Uid": "7", "Impersonate-Extra-Scopes": "view"},
        {"Impersonate-User": "jane", "Impersonate-Extra-Example.com%2Fkey": "value"},
        {"Impersonate-User": "jane", "Impersonate-Group": "system:authenticated"},
        {"Impersonate-User": "jane", "Impersonate-Group": "system:masters"},
        {"Impersonate-User": "system:serviceaccount:default:foo"},
        {"Impersonate-User": "system:serviceaccount:default:foo", "Impersonate-Group": "mine"},
        {"Impersonate-User": "system:anonymous", "Impersonate-Group": "system:authenticated"},
        {"impersonate-user": "lower-case"},
    ],
)
async def test_who_am_i_says_who_is_acted_as(both: Both, headers: dict[str, str]):
    answer = await both.same("POST", SELF, {}, headers=headers)
    assert answer.code == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate-Group": "x"},
        {"Impersonate-Uid": "5"},
        {"Impersonate-Extra-Scopes": "a"},
        {"Impersonate-Group": "x", "Impersonate-Uid": "5", "Impersonate-Extra-Scopes": "a"},
        {"Impersonate-User": "", "Impersonate-Group": "x"},
    ],
)
async def test_nobody_acts_as_part_of_a_user(both: Both, headers: dict[str, str]):
    answer = await both.same("GET", LIST, headers=headers)
    assert answer.code == 400


@pytest.mark.parametrize(
    "user", ["jane", "system:anonymous", "system:node:n1", "system:serviceaccount:default:foo", "Ünï"]
)
async def test_the_refusal_names_who_is_acted_as(both: Both, user: str):
    answer = await both.same("GET", LIST, headers={"Impersonate-User": user})
    assert answer.code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate-User": "jane"},
        {"Impersonate-User": "system:serviceaccount:default:foo"},
        {"Impersonate-User": "system:node:n1"},
        {"Impersonate-User": "jane", "Impersonate-Group": "system:masters"},
    ],
)
@pytest.mark.parametrize("path", [LIST, "/api/v1/namespaces/{ns}/pods/p/log", "/version", "/api/v1/nodes"])
async def test_an_account_without_the_right_cannot_act_as_others(both: Both, path: str, headers: dict[str, str]):
    bearers = await tokens(both)
    path = path.replace("{ns}", both.namespace)
    answers = [
        await ask_as(server.url, server.ca, path, {**headers, "Authorization": f"Bearer {token}"})
        for server, token in bearers
    ]
    assert answers[0] == answers[1]
    assert answers[0][0] == 403


async def tokens(both: Both) -> list[tuple[Any, str]]:
    from .test_tokens import bare_servers

    made = await both.each("POST", "/api/v1/namespaces/{ns}/serviceaccounts/default/token", {})
    return [(server, answer["status"]["token"]) for server, answer in zip(bare_servers(both), made, strict=True)]


async def ask_as(url: str, ca: Any, path: str, headers: dict[str, str]) -> tuple[int, Any]:
    from .test_tokens import ask_bare

    return await ask_bare(url, ca, "GET", path, headers=headers)
