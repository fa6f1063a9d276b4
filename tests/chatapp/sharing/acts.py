"""What tests of shared links do: make links, open them, and read what others got."""

from typing import Any

from django.http import HttpResponse
from django.test import Client

from chatapp.models import Conversation, SharedLink
from chatapp.sharing import links
from chatapp.sharing.tokens import make_token

Audience, Tools = SharedLink.Audience, SharedLink.Tools


def share(
    chat: Conversation,
    tools: SharedLink.Tools = Tools.OUTCOMES,
    audience: SharedLink.Audience = Audience.MEMBERS,
    *,
    includes_files: bool = False,
    days: int | None = 7,
) -> SharedLink:
    choices = links.Choices(
        audience=audience, tools=tools, includes_files=includes_files, days=days
    )
    return links.create(chat, choices)


def get_path(link: SharedLink) -> str:
    return f"/shared/{make_token(link.pk)}/"


def open_link(client: Client, link: SharedLink, query: str = "") -> Any:
    return client.get(get_path(link) + query)


def read(answer: HttpResponse) -> str:
    assert answer.status_code == 200
    return answer.content.decode()
