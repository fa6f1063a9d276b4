"""The models of a compatible server at OPENAI_BASE_URL: asked for, kept, and offered."""

import contextlib
import gzip
import json
import select
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from chatapp.models import Member, ModelProvider
from chatapp.providers.access import server_models
from chatapp.providers.access.model_choice import (
    choose_model,
    find_default_model,
    find_list_problem,
    list_offered_models,
)
from chatapp.providers.events import ProviderError
from chatapp.server.runtime import current_runtime
from chatapp.tool_menu.offered_tools import calculate_tool_room
from tests.chatapp.providers.accounts import forget_environment
from tests.commands import Ran
from tests.flows.model_server import answering
from tests.wire.listings import COMPATIBLE
from tests.wire.script import Answer
from tests.wire.server import WireServer

pytestmark = pytest.mark.django_db(transaction=True)
OFFERED = {
    "ollama": ["openai-chat:qwen3:4b", "openai-chat:gemma3:1b"],
    "vllm": ["openai-chat:Qwen/Qwen3-4B", "openai-chat:support-lora"],
    "llama.cpp": ["openai-chat:/models/gemma-3-1b-it-Q4_K_M.gguf"],
    "lm-studio": ["openai-chat:qwen/qwen3-4b"],
}
CONTEXTS = {"ollama": None, "vllm": 40_960, "llama.cpp": 8_192, "lm-studio": None}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[WireServer]:
    forget_environment(monkeypatch)
    settings.DEMO, settings.DEFAULT_MODEL = False, ""
    with answering(WireServer()) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def listing(value: Any, **more: Any) -> Answer:
    return Answer(document=json.dumps(value), content_type="application/json", **more)


def offered(person: Member | None = None) -> list[str]:
    return [model.id for model in list_offered_models(person)]


def expire() -> None:
    keeper: Any = current_runtime().server_list
    keeper.expires_at = float("-inf")


@pytest.mark.parametrize("name", COMPATIBLE)
def test_the_models_of_a_server_are_offered_by_its_address_alone(
    server: WireServer, name: str, owner: Member
) -> None:
    server.play(listing(COMPATIBLE[name]))
    assert offered(owner) == OFFERED[name]
    first = find_default_model(owner)
    assert first == OFFERED[name][0]
    assert choose_model(first, owner).context_tokens == CONTEXTS[name]
    assert choose_model(first, owner).account.key == ""
    assert "authorization" not in server.listed[0].headers
    assert len(server.listed) == 1, "It was asked again although the list was new."


def test_a_path_of_weights_is_shown_by_the_name_of_its_file(server: WireServer) -> None:
    server.play(listing(COMPATIBLE["llama.cpp"]))
    assert [model.label for model in list_offered_models(None)] == ["gemma-3-1b-it-Q4_K_M"]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "v", "type": "embeddings"},
        {"id": "v", "type": "image"},
        {"id": "v", "capabilities": ["embedding"]},
        {"id": "v", "capabilities": {"completion_chat": False}},
        {"id": "bge-m3"},
    ],
)
def test_models_for_something_else_are_left_out(server: WireServer, row: Any) -> None:
    said: list[Any] = [row, {"id": "talker", "type": "llm", "capabilities": ["tool_use"]}]
    server.play(listing({"data": said}))
    assert offered() == ["openai-chat:talker"]


def test_the_key_goes_to_the_server_that_the_environment_names(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    assert offered() == ["openai-chat:scripted"]
    assert server.listed[0].headers["authorization"] == "Bearer sk-x"
    assert not any("openai" in header for header in server.listed[0].headers)


def test_openais_own_address_offers_openais_models(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://eu.api.openai.com/v1")
    assert offered()[0].startswith("openai:gpt-")
    assert not any(each.startswith("openai-chat:") for each in offered())
    assert find_list_problem() is None


def test_default_model_comes_before_the_first_one_listed(server: WireServer, settings: Any) -> None:
    settings.DEFAULT_MODEL = "openai-chat:gemma3:1b"
    server.play(listing(COMPATIBLE["ollama"]))
    assert offered() == ["openai-chat:gemma3:1b", "openai-chat:qwen3:4b"]


# --- servers that do not list ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=404, document="404 page not found"), "Most addresses end in /v1"),
        (Answer(status=401, error={"message": "no"}), "refused the key"),
        (Answer(status=503, error={"message": "loading"}), "It answered 503"),
        (Answer(document="<html>", content_type="text/html"), "not a list of models"),
        (listing({"data": []}), "lists no chat model"),
        (listing({"data": [{"id": "x" * 4_100_000}]}), "did not list its models"),
    ],
)
def test_a_server_that_does_not_list_is_told_and_a_named_model_works(
    server: WireServer, owner: Member, answer: Answer, words: str
) -> None:
    server.play(answer)
    assert offered(owner) == []
    problem = find_list_problem()
    assert problem is not None
    assert words in f"{problem.message} {problem.hint}"
    assert "127.0.0.1" in problem.message
    with pytest.raises(ProviderError) as raised:
        choose_model(find_default_model(owner), owner)
    assert raised.value.message == problem.message
    assert choose_model("openai-chat:llama3", owner).name == "llama3"
    assert len(server.listed) == 1, "A server that failed is not asked again at once."


def test_nobody_there_is_told_on_the_page_and_by_the_doctor(
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    owner_client: Client,
) -> None:
    forget_environment(monkeypatch)
    settings.DEMO, settings.DEFAULT_MODEL = True, ""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    sentence = "The model server (127.0.0.1) did not list its models."
    assert sentence in owner_client.get("/").content.decode()
    assert sentence in owner_client.post("/models/").content.decode()
    assert sentence in Ran("doctor").out


def test_the_list_is_kept_while_the_server_is_away(server: WireServer) -> None:
    assert offered() == ["openai-chat:scripted"]
    expire()
    server.play(Answer(status=503, error={"message": "restarting"}))
    assert offered() == ["openai-chat:scripted"]
    assert find_list_problem() is not None
    expire()
    server.play(listing({"data": [{"id": "new"}]}))
    assert offered() == ["openai-chat:new"]
    assert find_list_problem() is None


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
DRIPS = 400


def drip(listener: socket.socket, begin: bytes, left: threading.Event) -> None:
    """Answer one request byte by byte. `left` is set if the other side leaves before the end."""
    with contextlib.suppress(OSError):
        connection, _ = listener.accept()
        with connection:
            connection.sendall(begin)
            for _ in range(DRIPS):
                if select.select([connection], [], [], 0.05)[0] and not connection.recv(65_536):
                    left.set()
                    return
                try:
                    connection.sendall(b" ")
                except OSError:
                    left.set()
                    return


@pytest.mark.gate
@pytest.mark.parametrize("begin", [HEAD + b"\r\n", HEAD + b"x-slow:"], ids=["body", "head"])
def test_a_server_that_never_ends_its_list_does_not_hold_a_page(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    left = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener, begin, left), daemon=True)
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        assert offered() == []
        thread.join(60)
        assert left.is_set()
    problem = find_list_problem()
    assert problem is not None
    assert "took longer" in problem.detail


def test_pages_do_not_wait_for_a_list_that_another_thread_reads(server: WireServer) -> None:
    assert offered() == ["openai-chat:scripted"]
    expire()
    keeper: Any = current_runtime().server_list
    found: list[list[str]] = []
    with keeper.lock:
        reader = threading.Thread(target=lambda: found.append(names()), daemon=True)
        reader.start()
        reader.join(30)
        assert found == [["scripted"]]
    assert len(server.listed) == 1


def names() -> list[str]:
    return [model.name for model in server_models.read_list().models]


def test_a_compressed_list_is_refused(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered() == ["openai-chat:scripted"]
    assert server.listed[0].headers["accept-encoding"] == "identity"
    body = gzip.compress(json.dumps({"data": [{"id": "small"}]}).encode())
    length = f"content-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n"

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(HEAD + length.encode() + body)
            connection.recv(65_536)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        assert offered() == []
        thread.join(30)
    problem = find_list_problem()
    assert problem is not None
    assert "compressed" in problem.detail


# --- what a list may say --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "expected"),
    [(1, 1), (10**9, 10**9), (10**9 + 1, None), (10**400, None), (0, None), (-5, None)],
    ids=["one", "most", "more", "huge", "none", "negative"],
)
def test_a_size_that_no_model_has_counts_as_unknown(
    server: WireServer, owner: Member, said: int, expected: int | None
) -> None:
    server.play(listing({"data": [{"id": "m", "context_length": said}]}))
    assert offered() == ["openai-chat:m"]
    chosen = choose_model("openai-chat:m", owner)
    assert chosen.context_tokens == expected
    assert calculate_tool_room(chosen) >= 0


def test_names_that_cannot_be_stored_or_read_are_left_out(server: WireServer) -> None:
    wrong = ["x" * 181, "a\0b", "a\u202eb", "a\nb"]
    rows = [{"id": name} for name in [*wrong, "x" * 180]]
    rows.append({"id": "long", "name": "\u202eLabel\n" + "y" * 300})
    server.play(listing({"data": rows}))
    first, second = list_offered_models(None)
    assert first.id == f"openai-chat:{'x' * 180}"
    assert second.label == f"Label {'y' * 93}…"


# --- a model that is chosen by its name -----------------------------------------------------------
def test_a_process_without_a_list_reads_it_for_a_model_that_is_named(
    server: WireServer, owner: Member
) -> None:
    server.play(listing(COMPATIBLE["vllm"]))
    assert choose_model("openai-chat:Qwen/Qwen3-4B", owner).context_tokens == 40_960
    assert choose_model("openai-chat:another", owner).context_tokens is None
    assert len(server.listed) == 1


def test_no_transaction_waits_for_the_server(server: WireServer, owner: Member) -> None:
    with transaction.atomic():
        assert choose_model("openai-chat:scripted", owner).listed is None
    assert not server.listed
    assert choose_model("openai-chat:scripted", owner).listed is not None


def test_an_admin_can_close_the_account(server: WireServer, owner: Member) -> None:
    ModelProvider.objects.create(
        slug="openai-chat",
        kind="openai-chat",
        label="Ours",
        key_place=ModelProvider.KeyPlace.ENVIRONMENT,
    )
    assert offered(owner) == []
    assert find_list_problem() is None
    assert not server.listed
    ModelProvider.objects.update(offers_unlisted=True)
    assert offered(owner) == ["openai-chat:scripted"]
