"""How much the models of a server on this machine read: shown where it says so, asked where not."""

import pytest
from django.test import Client

from chatapp.models import ModelProvider
from chatapp.providers.access import local_servers
from tests.wire.script import Answer
from tests.wire.server import WireServer

from .test_providers import LIST, bare, page, server, words

__all__ = ["bare", "server"]
pytestmark = pytest.mark.django_db
SIZED = '{"data": [{"id": "small", "meta": {"n_ctx": 8192}}]}'
MIXED = '{"data": [{"id": "small", "meta": {"n_ctx": 8192}}, {"id": "unsized"}]}'


def listing(document: str) -> Answer:
    return Answer(document=document, content_type="application/json")


def add(client: Client, address: str, size: str) -> str:
    posted = {"address": address, "context_tokens": size}
    return words(client.post(f"{LIST}add-server/", posted, follow=True))


@pytest.fixture
def called(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(local_servers, "PORTS", {"Ollama": server.port})
    return server.url


def test_ollama_is_asked_for_in_words_that_say_what_it_does(
    admin_client: Client, called: str
) -> None:
    found = page(admin_client.post(f"{LIST}look/"))
    (field,) = found.select("form[action$='add-server/'] [name=context_tokens]")
    (told,) = found.select(f"#{field['aria-describedby']}")
    assert "silently drops text beyond its context" in told.get_text()
    assert "unknown" in found.get_text()


def test_the_size_is_kept_with_the_models_that_have_none(
    admin_client: Client, server: WireServer, called: str
) -> None:
    server.play(listing(MIXED))
    assert "silently" not in add(admin_client, called, "32768")
    sizes = ModelProvider.objects.get().chat_models.values_list("name", "context_tokens")
    assert dict(sizes) == {"small": 8192, "unsized": 32_768}


def test_without_a_size_it_is_said_what_will_happen(admin_client: Client, called: str) -> None:
    told = add(admin_client, called, "")
    assert "Added Ollama with 1 model." in told
    assert "Ollama silently cuts long chats. Enter the context size on the page of each" in told


@pytest.mark.parametrize("size", ["0", "-5", "many", "9" * 20])
def test_what_is_no_size_adds_nothing(admin_client: Client, called: str, size: str) -> None:
    assert "Context size:" in add(admin_client, called, size)
    assert not ModelProvider.objects.exists()


def test_a_server_that_says_it_is_not_asked_for(
    admin_client: Client, server: WireServer, called: str
) -> None:
    server.play(listing(SIZED))
    found = page(admin_client.post(f"{LIST}look/"))
    assert not found.select("[name=context_tokens]")
    assert "8192" in found.get_text()
