"""A person signs in to the service `vault`, whose authorization server agrees at once."""

from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.test import Client

from chatapp.models import Member, ToolCall
from tests.conftest import signed_in
from tests.dom_tree import parse


def came_back(link: str) -> str:
    """The path that the authorization server sends the person's browser back to."""
    answer = httpx2.get(link, trust_env=False)
    assert answer.status_code == 302, answer.text
    parts = urlsplit(answer.headers["location"])
    return f"{parts.path}?{parts.query}"


def connect(client: Client, call: ToolCall) -> Any:
    """Press *Connect* on the card, follow the link that it then holds, and come back."""
    answer = client.post(
        "/oauth/mcp/vault/start", {"call": str(call.pk)}, headers={"HX-Request": "true"}
    )
    link = parse(answer.content.decode()).one("a", rel="noreferrer")
    return client.get(came_back(link["href"]))


def sign_in(owner: Member, call: ToolCall) -> Any:
    return connect(signed_in(owner), call)


def sign_in_elsewhere(owner: Member) -> None:
    """On the page of services, in another tab."""
    client = signed_in(owner)
    answer = client.post("/oauth/mcp/vault/start")
    link = parse(answer.content.decode()).one("a", rel="noreferrer")
    client.get(came_back(link["href"]))
