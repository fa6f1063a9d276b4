"""What an admin set, what goes to OpenAI alone, and files, in both of OpenAI's forms."""

import base64
import json
import socket
from dataclasses import replace
from typing import Any

import pytest

from chatapp.providers import environment
from chatapp.providers.account import Account, ProviderNames
from chatapp.providers.events import ProviderError
from chatapp.providers.registry import load_provider
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    Media,
    ModelRequest,
    Parameters,
    ToolOutcome,
    UserMessage,
)
from tests.chatapp.providers.accounts import find_provider
from tests.chatapp.providers.stories import (
    OPENAI_FORMS,
    a_request,
    failure_of,
    refusal,
    said_by,
    text_of,
)
from tests.wire.script import Answer
from tests.wire.server import WireServer

PDF = Media(media_type="application/pdf", base64="JVBERi0=", name="paper.pdf")
PICTURE = Media(media_type="image/png", base64="iVBORw0KGgo=", name="shot.png")
NOTES = Media(
    media_type="text/plain", base64=base64.b64encode("Grüße".encode()).decode(), name="notes.txt"
)
PDF_URL = "data:application/pdf;base64,JVBERi0="
PICTURE_URL = "data:image/png;base64,iVBORw0KGgo="
EVERYTHING = Parameters(output_tokens=900, temperature=0.25, effort="low")
OWN_HOST = "local.api.openai.com"
PLAIN = {
    *("accept", "accept-encoding", "connection", "content-length", "content-type"),
    *("host", "user-agent"),
}


@pytest.fixture(params=OPENAI_FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def own_host(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address of OpenAI's own, which here leads to the wire server."""
    real = socket.getaddrinfo

    def found(host: Any, *args: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return real("127.0.0.1" if name == OWN_HOST else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    address = f"http://{OWN_HOST}:{wire.port}/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    return address


def asking(parameters: Parameters = EVERYTHING) -> ModelRequest:
    return replace(a_request(), parameters=parameters, cache_key="chat-7")


# --- parameters --------------------------------------------------------------------------------
SERVERS: dict[str, dict[str, Any]] = {
    "openai": {
        "reasoning": {"effort": "low", "summary": "auto"},
        "temperature": 0.25,
        "max_output_tokens": 900,
    },
    "openai-chat": {"reasoning_effort": "low", "temperature": 0.25, "max_tokens": 900},
}
OPENAIS: dict[str, dict[str, Any]] = {
    "openai": {**SERVERS["openai"], "prompt_cache_key": "chat-7"},
    "openai-chat": {
        "reasoning_effort": "low",
        "temperature": 0.25,
        "max_completion_tokens": 900,
        "prompt_cache_key": "chat-7",
    },
}
ALL_OPTIONS = {name for options in (*SERVERS.values(), *OPENAIS.values()) for name in options}


def options_in(body: Any) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name in ALL_OPTIONS}


async def test_a_compatible_server_gets_what_an_admin_set(wire: WireServer, form: str) -> None:
    await said_by(form, asking())
    assert options_in(wire.requests[0].body) == SERVERS[form]


async def test_openai_itself_gets_its_own_names_and_the_key_of_its_cache(
    wire: WireServer, form: str, own_host: str
) -> None:
    await said_by(form, asking())
    assert options_in(wire.requests[0].body) == OPENAIS[form]


async def test_what_nobody_set_is_left_to_the_provider(wire: WireServer, form: str) -> None:
    await said_by(form, asking(Parameters()))
    expected = {"reasoning": {"summary": "auto"}} if form == "openai" else {}
    assert options_in(wire.requests[0].body) == expected


async def test_reasoning_that_is_off_is_said_to_be(wire: WireServer, form: str) -> None:
    await said_by(form, asking(Parameters(effort="off")))
    key, off = ("reasoning", {"effort": "none"}), ("reasoning_effort", "none")
    name, value = key if form == "openai" else off
    assert wire.requests[0].body[name] == value


@pytest.mark.parametrize(
    ("form", "option"),
    [
        ("openai", "temperature"),
        ("openai", "reasoning"),
        ("openai", "max_output_tokens"),
        ("openai-chat", "temperature"),
        ("openai-chat", "reasoning_effort"),
    ],
)
async def test_an_option_that_a_model_refuses_is_left_out(
    wire: WireServer, form: str, option: str
) -> None:
    wire.play(refusal(400, "", f"Unsupported parameter: '{option}'"), Answer(text="fine"))
    assert text_of(await said_by(form, asking())) == "fine"
    first, second = (options_in(request.body) for request in wire.requests)
    assert first.keys() - second.keys() == {option}


async def test_a_newer_name_for_the_limit_is_taken_up(wire: WireServer) -> None:
    complaint = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    wire.play(refusal(400, "", complaint), Answer(text="fine"))
    assert text_of(await said_by("openai-chat", asking())) == "fine"
    body = wire.requests[1].body
    assert body["max_completion_tokens"] == 900
    assert "max_tokens" not in body


# --- files -------------------------------------------------------------------------------------
ASKED = UserMessage(text="Read", media=(PDF, NOTES, PICTURE))
CALLED = AssistantMessage(parts=(AskedTool(call_id="c1", name="notes_write", arguments="{}"),))
DRAWN = ToolOutcome(call_id="c1", name="notes_write", text="Drawn.", media=(PICTURE, PDF))
IN_RESPONSES: list[dict[str, Any]] = [
    {"type": "input_text", "text": "Read"},
    {"type": "input_file", "filename": "paper.pdf", "file_data": PDF_URL},
    {"type": "input_text", "text": "notes.txt:\nGrüße"},
    {"type": "input_image", "image_url": PICTURE_URL},
]
IN_CHAT: list[dict[str, Any]] = [
    {"type": "text", "text": "Read"},
    {"type": "file", "file": {"filename": "paper.pdf", "file_data": PDF_URL}},
    {"type": "text", "text": "notes.txt:\nGrüße"},
    {"type": "image_url", "image_url": {"url": PICTURE_URL}},
]


async def test_files_go_in_the_form_of_responses(wire: WireServer) -> None:
    await said_by("openai", a_request((ASKED, CALLED, DRAWN)))
    items = wire.requests[0].body["input"]
    assert items[0]["content"] == IN_RESPONSES
    text, picture, paper = items[2]["output"]
    assert text == {"type": "input_text", "text": "Drawn."}
    assert (picture["image_url"], paper["file_data"]) == (PICTURE_URL, PDF_URL)


async def test_files_of_tools_follow_all_results_of_their_step(wire: WireServer) -> None:
    """A result is text only in this form, and no message may stand between a step's results."""
    calls = tuple(AskedTool(call_id=f"c{n}", name="notes_write", arguments="{}") for n in (1, 2))
    second = ToolOutcome(call_id="c2", name="notes_write", text="Done.")
    history = (ASKED, AssistantMessage(parts=calls), DRAWN, second, UserMessage(text="And?"))
    await said_by("openai-chat", a_request(history))
    user, _, first, other, files, last = wire.requests[0].body["messages"][1:]
    assert user["content"] == IN_CHAT
    assert [first["role"], other["role"], files["role"]] == ["tool", "tool", "user"]
    assert [part["type"] for part in files["content"]] == ["text", "image_url", "file"]
    assert last["content"] == "And?"


@pytest.mark.parametrize(
    ("complaint", "gone"),
    [
        ("This model does not support image inputs.", ("input_image", "image_url")),
        ("Invalid file: PDF is not supported", ("input_file", "file")),
    ],
)
async def test_what_a_model_refuses_is_left_out_and_the_rest_stays(
    wire: WireServer, form: str, complaint: str, gone: tuple[str, ...]
) -> None:
    wire.play(refusal(400, "", complaint), Answer(text="fine"))
    assert text_of(await said_by(form, a_request((ASKED, CALLED, DRAWN)))) == "fine"
    first, second = (repr(request.body) for request in wire.requests)
    refused = {f"'type': '{kind}'" for kind in gone}
    assert any(kind in first for kind in refused)
    assert not any(kind in second for kind in refused)
    assert "Grüße" in second
    assert "Drawn." in second


async def test_a_word_on_documentation_is_no_complaint_about_documents(
    wire: WireServer, form: str
) -> None:
    wire.play(*[refusal(400, "", "Bad profile. See the documentation.")] * 2)
    assert (await failure_of(form, a_request((ASKED,)))).kind == "bad_request"
    assert len(wire.requests) == 1


# --- what is told to whom ----------------------------------------------------------------------
async def test_openai_itself_gets_what_the_operator_set_for_it(
    wire: WireServer, form: str, own_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: red")
    await said_by(form)
    headers = wire.requests[0].headers
    assert headers["authorization"] == "Bearer sk-env"
    assert (headers["openai-organization"], headers["x-team"]) == ("org-1", "red")
    assert headers.keys() == PLAIN | {"authorization", "openai-organization", "x-team"}


async def test_another_account_gets_its_own_headers_and_none_of_the_operators(
    wire: WireServer, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK reads all of these itself. The fault to plant: no `OwnHeaders` in `_new_client`."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "operators-own")
    lines = "X-Team: operators-own\nAuthorization: Bearer operators-own\nUser-Agent: operators-own"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", lines)
    names = ProviderNames(label="Azure", key_variable="K", url_variable="U")
    azure = Account(names=names, base_url=wire.url, headers=(("api-key", "azure-key"),))
    provider = await load_provider(form)
    assert text_of([event async for event in provider.stream(a_request(), azure)])
    assert [model.name for model in await provider.list_models(azure)] == ["scripted"]
    for request in (*wire.requests, *wire.listed):
        assert "operators-own" not in repr(request.headers)
        assert request.headers["api-key"] == "azure-key"
        assert request.headers.keys() - PLAIN == {"api-key"}


async def test_two_accounts_of_one_server_do_not_share_a_client(
    wire: WireServer, form: str
) -> None:
    provider, _, account = await find_provider(f"{form}:m")
    for key in ("first", "second", "first"):
        async for _event in provider.stream(a_request(), replace(account, key=key)):
            pass
    sent = [request.headers["authorization"] for request in wire.requests]
    assert sent == ["Bearer first", "Bearer second", "Bearer first"]


async def test_no_secret_of_the_account_comes_back_in_an_error(wire: WireServer, form: str) -> None:
    names = ProviderNames(label="Azure", key_variable="K", url_variable="U")
    account = Account(
        names=names, base_url=wire.url, key="sk-secret-1", headers=(("api-key", "azure-secret"),)
    )
    wire.play(refusal(401, "", "Bad: sk-secret-1, azure-secret"))
    provider = await load_provider(form)
    with pytest.raises(ProviderError, match="refused the key") as raised:
        [event async for event in provider.stream(a_request(), account)]
    assert raised.value.detail == "Bad: …, …"
    assert "secret" not in repr((raised.value, account))


# --- lists of models ---------------------------------------------------------------------------
async def listed(wire: WireServer, document: str) -> list[Any]:
    wire.play(Answer(document=document, content_type="application/json"))
    provider = await load_provider("openai-chat")
    return [*await provider.list_models(environment.read_account("openai-chat"))]


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        ('{"id": "m"}', (None, None, None, None, None)),
        ('{"id": "m", "max_model_len": 8192}', (8192, None, None, None, None)),
        (
            '{"id": "m", "meta": {"n_ctx": 4096, "n_ctx_train": 131072}}',
            (4096, None, None, None, None),
        ),
        ('{"id": "m", "meta": {"n_ctx_train": 131072}}', (None, None, None, None, None)),
        (
            '{"id": "m", "context_length": 9, "top_provider": {"max_completion_tokens": 5},'
            '"architecture": {"input_modalities": ["text", "file", "image"]},'
            '"supported_parameters": ["tools", "reasoning"]}',
            (9, 5, True, True, True),
        ),
        (
            '{"id": "m", "architecture": {"input_modalities": ["text"]},'
            '"supported_parameters": ["tools"]}',
            (None, None, False, False, False),
        ),
        (
            '{"id": "m", "context_length": "9", "meta": null, "architecture": [],'
            '"supported_parameters": [1], "max_model_len": true, "max_output_tokens": -1}',
            (None, None, None, None, False),
        ),
    ],
    ids=[
        "openai",
        "vllm",
        "llama.cpp",
        "older llama.cpp",
        "openrouter",
        "openrouter, words only",
        "nonsense",
    ],
)
async def test_what_servers_say_of_a_model_is_read(
    wire: WireServer, row: str, facts: tuple[Any, ...]
) -> None:
    (model,) = await listed(wire, f'{{"data": [{row}]}}')
    assert facts == (
        *(model.context_tokens, model.output_tokens),
        *(model.takes_pictures, model.takes_documents, model.reasons),
    )


async def test_a_list_is_sorted_and_without_what_cannot_chat(wire: WireServer) -> None:
    ids = ["z", "text-embedding-3", "whisper-1", "gpt-image-2", "a", "a", "omni-moderation", "", 7]
    document = json.dumps([*({"id": each} for each in ids), {"name": "no id"}, "text", None])
    found = await listed(wire, document)
    assert [model.name for model in found] == ["a", "z"]
