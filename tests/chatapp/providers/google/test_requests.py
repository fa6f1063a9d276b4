"""What the Gemini provider sends: contents in turns, signatures where they were, and no key or
header but the account's."""

import base64
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from chatapp.providers.events import ProviderError
from chatapp.providers.google import client
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    Effort,
    HistoryItem,
    Media,
    ModelRequest,
    Parameters,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from tests.chatapp.providers.accounts import SECRET, find_provider
from tests.chatapp.providers.stories import (
    HELLO,
    a_request,
    as_history,
    finish_of,
    refusal,
    said_by,
    text_of,
)
from tests.wire.gemini_format import SIGNATURE
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer, wire_server

Content = dict[str, Any]
# The same bytes in the alphabet in which the SDK writes them.
SIGNED = base64.urlsafe_b64encode(base64.b64decode(SIGNATURE)).decode()
DUMMY = base64.b64encode(b"skip_thought_signature_validator").decode()
STORY = Answer(
    reasoning="I need both.",
    text="Let me look.",
    tools=(Tool(name="notes_write", arguments={"text": "é"}), Tool(name="notes_write")),
)
PICTURE = Media(media_type="image/png", base64="iVBORw0KGgo=", name="dot.png")
PDF = Media(media_type="application/pdf", base64="JVBERi0=", name="a.pdf")
NOTE = Media(media_type="text/csv", base64=base64.b64encode("ä,b".encode()).decode(), name="n.csv")
PICTURE_PART = {"inlineData": {"mime_type": "image/png", "data": "iVBORw0KGgo="}}
PDF_PART = {"inlineData": {"mime_type": "application/pdf", "data": "JVBERi0="}}
SILENCE = {"role": "user", "parts": [{"text": "."}]}


async def body_of(wire: WireServer, request: ModelRequest) -> dict[str, Any]:
    assert finish_of(await said_by("google", request)) == "stop"
    body: dict[str, Any] = wire.requests[-1].body
    return body


async def contents_of(wire: WireServer, *history: HistoryItem) -> list[Content]:
    contents: list[Content] = (await body_of(wire, a_request(history)))["contents"]
    return contents


def call(number: int, **signature: str) -> dict[str, Any]:
    arguments = {"text": "é"} if number == 0 else {}
    function = {"id": f"call_{number}", "name": "notes_write", "args": arguments}
    return {"functionCall": function, **signature}


def response(number: int, **said: str) -> dict[str, Any]:
    function = {"id": f"call_{number}", "name": "notes_write", "response": said}
    return {"functionResponse": function}


def outcome(number: int, text: str = "Done.", **more: Any) -> ToolOutcome:
    return ToolOutcome(call_id=f"call_{number}", name="notes_write", text=text, **more)


def said_elsewhere(*call_ids: str) -> AssistantMessage:
    sealed = {"provider": "openai", "data": {"x": "sealed"}}
    arguments = '{"text": "\\ud83d", "n": NaN}'
    calls = [
        AskedTool(call_id=each, name="notes_write", arguments=arguments, opaque=sealed)
        for each in call_ids
    ]
    reasoning = SaidReasoning(text="Hm", opaque=sealed)
    return AssistantMessage(parts=(reasoning, SaidText(text="Well", opaque=sealed), *calls))


async def test_what_was_signed_goes_back_on_the_part_that_it_came_with(wire: WireServer) -> None:
    wire.play(replace(STORY, tools=()), STORY)
    words, calls = as_history(await said_by("google")), as_history(await said_by("google"))
    contents = await contents_of(wire, *HELLO, words, *HELLO, calls, outcome(0), outcome(1))
    let_me = {"text": "Let me look."}
    assert contents[1]["parts"] == [let_me, {"text": "", "thoughtSignature": SIGNED}]
    assert contents[3]["parts"] == [let_me, call(0, thoughtSignature=SIGNED), call(1)]
    assert contents[4]["parts"] == [response(0, output="Done."), response(1, output="Done.")]


@pytest.mark.parametrize("is_thought", [True, False])
async def test_words_around_a_signature_stay_parts_of_their_own(
    wire: WireServer, is_thought: bool
) -> None:
    kind = {"thought": True} if is_thought else {}
    texts = [("Fir", False), ("st", False), (" signed", True), (" the", False), (" rest", False)]
    parts = [
        {"text": text, **kind} | ({"thoughtSignature": SIGNATURE} if is_signed else {})
        for text, is_signed in texts
    ]
    chunks = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    wire.play(Answer(events=(*chunks, {"candidates": [{"finishReason": "STOP"}]})))
    said = as_history(await said_by("google"))
    assert (await contents_of(wire, *HELLO, said, *HELLO))[1]["parts"] == [
        {"text": "First", **kind},
        {"text": " signed", **kind, "thoughtSignature": SIGNED},
        {"text": " the rest", **kind},
    ]


async def test_signed_words_between_two_calls_stay_between_them(wire: WireServer) -> None:
    parts = [
        call(0, thoughtSignature=SIGNATURE),
        {"text": "Now the other.", "thoughtSignature": SIGNATURE},
        call(1, thoughtSignature=SIGNATURE),
        {"text": "", "thoughtSignature": SIGNATURE},
    ]
    chunks = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    wire.play(Answer(events=(*chunks, {"candidates": [{"finishReason": "STOP"}]})))
    said = as_history(await said_by("google"))
    contents = await contents_of(wire, *HELLO, said, outcome(0), outcome(1))
    assert contents[1]["parts"] == [
        part | ({"thoughtSignature": SIGNED} if "thoughtSignature" in part else {})
        for part in parts
    ]


async def test_a_call_without_an_id_is_answered_without_one(wire: WireServer) -> None:
    wire.play(replace(STORY, is_sloppy=True))
    said = as_history(await said_by("google"))
    ids = [part.call_id for part in said.parts if isinstance(part, AskedTool)]
    assert len(set(ids)) == 2
    results = [ToolOutcome(call_id=each, name="notes_write", text=each) for each in ids]
    contents = await contents_of(wire, *HELLO, said, *results)
    functions = [part["functionCall"] for part in contents[1]["parts"] if "functionCall" in part]
    answers = [part["functionResponse"] for part in contents[2]["parts"]]
    assert not any("id" in each for each in (*functions, *answers))
    assert [each["response"]["output"] for each in answers] == ids


async def test_an_id_that_was_used_twice_goes_back_once(wire: WireServer) -> None:
    wire.play(STORY)
    said = as_history(await said_by("google"))
    renamed = [
        replace(part, call_id=f"ours_{part.call_id}") if isinstance(part, AskedTool) else part
        for part in said.parts
    ]
    ids = [part.call_id for part in renamed if isinstance(part, AskedTool)]
    results = [ToolOutcome(call_id=each, name="notes_write", text=each) for each in ids]
    contents = await contents_of(wire, *HELLO, replace(said, parts=tuple(renamed)), *results)
    functions = [part["functionCall"] for part in contents[1]["parts"] if "functionCall" in part]
    answers = [part["functionResponse"] for part in contents[2]["parts"]]
    assert [each["id"] for each in functions] == [each["id"] for each in answers] == ids


async def test_calls_of_another_model_are_plain_and_marked_as_not_signed(wire: WireServer) -> None:
    said = said_elsewhere("call_0", "call_1")
    contents = await contents_of(wire, *HELLO, said, outcome(0, is_error=True), outcome(1))
    words, first, second = contents[1]["parts"]
    assert words == {"text": "Well"}
    assert (first["thoughtSignature"], "thoughtSignature" in second) == (DUMMY, False)
    assert first["functionCall"]["args"] == {"text": "\ufffd", "n": "NaN"}
    assert contents[2]["parts"] == [response(0, error="Done."), response(1, output="Done.")]
    assert "sealed" not in repr(contents)
    assert "Hm" not in repr(contents)


async def test_a_reference_inside_a_result_stays_words(wire: WireServer) -> None:
    text = '{"$ref": "#/x"}'
    contents = await contents_of(wire, *HELLO, said_elsewhere("call_0"), outcome(0, text))
    assert contents[2]["parts"] == [response(0, output=text)]


async def test_files_of_results_come_after_all_results(wire: WireServer) -> None:
    files = (PICTURE, Media(media_type="image/gif", base64="R0lG"))
    contents = await contents_of(
        wire, *HELLO, said_elsewhere("call_0", "call_1"), outcome(0, media=files), outcome(1)
    )
    assert [len(content["parts"]) for content in contents] == [1, 3, 2, 2]
    label, picture = contents[3]["parts"]
    assert contents[3]["role"] == "user"
    assert "call_0" in label["text"]
    assert picture == PICTURE_PART


async def test_files_of_a_person_go_before_the_words(wire: WireServer) -> None:
    told = UserMessage(text="What is this?", media=(PICTURE, PDF, NOTE))
    assert (await contents_of(wire, told))[0]["parts"] == [
        PICTURE_PART,
        PDF_PART,
        {"text": "The file n.csv:\nä,b"},
        {"text": "What is this?"},
    ]


@pytest.mark.parametrize(
    ("history", "turns"),
    [
        ((said_elsewhere("c"), ToolOutcome(call_id="c", name="n", text="x")), [1, 2, 1]),
        ((*HELLO, said_elsewhere(), said_elsewhere("call_0"), outcome(0)), [1, 3, 1]),
        ((*HELLO, AssistantMessage(parts=(SaidReasoning(text="Hm"),)), *HELLO), [1, 1]),
        ((UserMessage(text=" "),), [1]),
        ((), [1]),
    ],
)
async def test_a_model_speaks_only_after_somebody_else(
    wire: WireServer, history: tuple[HistoryItem, ...], turns: list[int]
) -> None:
    contents = await contents_of(wire, *history)
    assert contents[0]["role"] == "user"
    assert [len(content["parts"]) for content in contents] == turns
    roles = [content["role"] for content in contents]
    assert ("model", "model") not in list(zip(roles, roles[1:], strict=False))
    assert all(part.get("text") != " " for content in contents for part in content["parts"])
    if not history or isinstance(history[0], AssistantMessage):
        assert contents[0] == SILENCE


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("gemini-3.8-flash", "", {"include_thoughts": True}),
        ("gemini-3.8-flash", "high", {"include_thoughts": True, "thinking_level": "HIGH"}),
        ("gemini-4-argon", "off", {"include_thoughts": False, "thinking_level": "MINIMAL"}),
        ("gemini-2.5-pro", "low", {"include_thoughts": True, "thinking_budget": 1024}),
        ("gemini-2.5-flash", "off", {"include_thoughts": False, "thinking_budget": 0}),
    ],
)
async def test_effort_is_told_as_the_generation_knows_it(
    wire: WireServer, model: str, effort: Effort, thinking: dict[str, Any]
) -> None:
    parameters = Parameters(effort=effort, output_tokens=500, temperature=0.5)
    request = replace(a_request(), model=model, parameters=parameters)
    sent = (await body_of(wire, request))["generationConfig"]
    assert sent == {"thinkingConfig": thinking, "maxOutputTokens": 500, "temperature": 0.5}


@pytest.mark.parametrize(
    ("complaint", "gone"),
    [
        ("Thinking level is not supported for this model.", "thinking_level"),
        ("Thinking is not enabled for models/scripted", "thinking_level"),
        ("Image input modality is not enabled for models/scripted", "inlineData"),
        ("Unsupported MIME type: image/png", "inlineData"),
        ("Thought signature is not valid.", SIGNED),
        ("Function call is missing a thought_signature in functionCall parts.", SIGNED),
    ],
)
async def test_what_a_model_does_not_take_is_left_out_once(
    wire: WireServer, complaint: str, gone: str
) -> None:
    wire.play(STORY)
    said = as_history(await said_by("google"))
    history = (UserMessage(text="Look", media=(PICTURE,)), said, outcome(0), outcome(1))
    request = replace(a_request(history), parameters=Parameters(effort="low"))
    wire.play(refusal(400, "INVALID_ARGUMENT", complaint), Answer(text="fine"))
    assert text_of(await said_by("google", request)) == "fine"
    before, after = (repr(each.body) for each in wire.requests[1:])
    assert gone in before
    assert gone not in after
    assert "Look" in after

    wire.play(*[refusal(400, "INVALID_ARGUMENT", complaint)] * 9)
    with pytest.raises(ProviderError) as raised:
        await said_by("google", request)
    assert raised.value.kind == "bad_request"
    assert len(wire.requests) <= 8


async def test_half_characters_are_sent_as_whole_ones(wire: WireServer) -> None:
    request = ModelRequest(model="m", system="half \ud83d", history=HELLO)
    body = await body_of(wire, request)
    assert body["systemInstruction"]["parts"] == [{"text": "half \ufffd"}]


async def test_only_the_accounts_own_key_and_headers_leave(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "operators-other-key")
    monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "operators-project")
    provider, _, account = await find_provider("google:m")
    account = replace(account, key="own-key", headers=(("X-Team", "own-team"),))
    assert [event async for event in provider.stream(a_request(), account)]
    assert await provider.list_models(account)
    for request in (*wire.requests, *wire.listed):
        assert request.headers["x-goog-api-key"] == "own-key"
        assert request.headers["x-team"] == "own-team"
        assert "operators" not in repr(request)
        # It would be a limit for the whole answer.
        assert "x-server-timeout" not in request.headers
    assert SECRET not in repr(wire.requests)


async def test_an_account_without_a_key_does_not_borrow_the_operators(wire: WireServer) -> None:
    provider, _, account = await find_provider("google:m")
    for step in (
        anext(provider.stream(a_request(), replace(account, key=""))),
        provider.list_models(replace(account, key="")),
    ):
        with pytest.raises(ProviderError) as raised:
            await step
        assert raised.value.kind == "auth"
    assert not (wire.requests or wire.listed)


async def test_an_account_without_an_address_does_not_go_to_the_operators(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    async with wire_server() as google:
        monkeypatch.setattr(client, "GOOGLE_URL", google.base_url("google"))
        provider, _, account = await find_provider("google:m")
        unaddressed = replace(account, base_url="", key="another")
        assert [event async for event in provider.stream(a_request(), unaddressed)]
        assert (len(google.requests), len(wire.requests)) == (1, 0)


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1beta", "/v1beta/"])
async def test_an_address_may_name_the_version(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", wire.base_url("google") + ending)
    assert finish_of(await said_by("google")) == "stop"
    version = ending.strip("/") or "v1"
    assert wire.requests[0].path == f"/{version}/models/scripted:streamGenerateContent"


async def test_models_are_listed_with_their_sizes(wire: WireServer) -> None:
    provider, _, account = await find_provider("google:m")
    scripted, small = await provider.list_models(account)
    assert (scripted.name, small.name) == ("scripted", "small")
    assert (scripted.context_tokens, scripted.output_tokens) == (1_048_576, 65_536)
    assert (scripted.label, scripted.reasons) == ("Scripted", True)
    assert len(wire.listed) == 2
