"""How a call to any provider fails: its kind, its words, and what does not leak."""

import asyncio

import pytest
from pytest_django import Settings

from chatapp.providers.events import ErrorKind, ProviderError
from chatapp.providers.request import ModelRequest
from tests.wire.formats import FORMATS
from tests.wire.script import Answer
from tests.wire.server import WireServer

from .accounts import BASE_URLS, SECRET, find_provider
from .stories import HELLO, a_request, failure_of, finish_of, refusal, said_by, text_of

pytestmark = pytest.mark.gate

PAGE = "<html>Sign in</html>"
# These send half characters as whole ones.
MENDS_TEXT = {"google", "bedrock"}
KINDS: list[tuple[ErrorKind, Answer]] = [
    ("auth", refusal(401, "", "Who are you?")),
    ("auth", refusal(403, "", "Not from here")),
    ("rate_limit", refusal(429, "rate_limit_exceeded", "Slow down")),
    ("overloaded", refusal(503, "overloaded", "Busy")),
    ("too_long", refusal(413, "", "Large")),
    ("too_long", refusal(400, "", "The prompt is too long: 9 tokens > 8 maximum")),
    ("bad_request", refusal(400, "", "Wrong value")),
    ("not_found", refusal(404, "", "No such model")),
    ("server", refusal(500, "server_error", "Oops")),
    ("timeout", refusal(504, "", "Gateway timed out")),
    ("protocol", Answer(status=302, headers={"location": "http://127.0.0.1:9/"})),
    ("server", Answer(status=502, document="<html>Bad gateway</html>", content_type="text/html")),
    ("protocol", Answer(document=PAGE, content_type="text/html")),
    ("protocol", Answer(document='{"answer": 1}', content_type="application/json")),
    ("protocol", Answer(document="just words", content_type="text/plain")),
    ("protocol", Answer(document=" ", content_type="")),
    ("protocol", Answer(events=("data: {broken\n\n",))),
    ("network", Answer(cut="reset", cut_after=-1)),
    ("network", Answer(cut="end", cut_after=-1)),
    ("network", Answer(text="broken off " * 9, cut="reset", cut_after=5)),
    ("protocol", Answer(text="never finished " * 9, cut="end", cut_after=5)),
]


@pytest.mark.parametrize(("kind", "answer"), KINDS)
async def test_each_failure_has_its_kind_and_is_not_repeated_by_the_sdk(
    wire: WireServer, form: str, kind: ErrorKind, answer: Answer
) -> None:
    wire.play(answer)
    error = await failure_of(form)
    assert error.kind == kind, error.detail
    assert error.message
    assert error.hint
    assert len(wire.requests) == 1, "the engine decides about retries, not the SDK"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("server", "server_error"),
        ("rate_limit", "rate_limit_exceeded"),
        ("overloaded", "overloaded"),
        ("bad_request", "invalid_prompt"),
    ],
)
async def test_an_error_inside_the_stream_has_its_kind(
    wire: WireServer, form: str, kind: ErrorKind, code: str
) -> None:
    wire.play(Answer(text="Half an", in_stream_error={"code": code, "message": "It broke"}))
    error = await failure_of(form)
    assert (error.kind, error.detail) == (kind, "It broke")


async def test_the_wait_that_was_asked_for_is_kept_and_told(wire: WireServer, form: str) -> None:
    wire.play(refusal(429, "rate_limit_exceeded", "Slow down", retry_after="7"))
    error = await failure_of(form)
    assert error.retry_after == 7
    assert "in 7 seconds" in error.hint
    assert error.is_worth_a_retry


async def test_a_key_in_the_providers_words_is_never_shown(
    wire: WireServer, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form.startswith("openai"):
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    broken = {"code": "server_error", "message": f"Lost {SECRET}"}
    wire.play(
        refusal(401, "", f"Wrong key: {SECRET}."),
        refusal(400, "", f"Wrong key: {SECRET}."),
        Answer(in_stream_error=broken),
    )
    for _ in range(3):
        error = await failure_of(form)
        assert SECRET not in repr((error, error.detail))


async def test_the_provider_explains_a_bad_request_in_its_own_words(
    wire: WireServer, form: str
) -> None:
    wire.play(refusal(400, "", "Wrong value: 'x'"), refusal(400, "", "y" * 5_000))
    assert "Wrong value: 'x'" in (await failure_of(form)).message
    long = await failure_of(form)
    assert "yyy" not in long.message
    assert "yyy" in long.detail


async def test_other_failures_do_not_quote_the_provider(wire: WireServer, form: str) -> None:
    wire.play(refusal(401, "", "internal words"), refusal(500, "", "internal words"))
    for _ in range(2):
        error = await failure_of(form)
        assert "internal words" not in f"{error.message} {error.hint}"
        assert error.detail == "internal words"


async def test_a_server_that_never_answers_times_out(
    wire: WireServer, form: str, settings: Settings
) -> None:
    await said_by(form)  # the SDK is imported and its client made
    settings.MODEL_FIRST_BYTE_SECONDS = 1  # a busy machine may need most of it to send a request
    wire.play(Answer(cut="hang", cut_after=-1), Answer(cut="hang", cut_after=0))
    for _ in range(2):
        assert (await failure_of(form)).kind == "timeout"
    await wire.until(lambda: wire.aborted == 2)


async def test_a_server_that_falls_silent_times_out(
    wire: WireServer, form: str, settings: Settings
) -> None:
    settings.MODEL_IDLE_SECONDS = 0.1
    wire.play(Answer(text="abc" * 20, cut="hang", cut_after=6))
    assert (await failure_of(form)).kind == "timeout"
    await wire.until(lambda: wire.aborted == 1)


async def test_the_first_byte_may_take_longer_than_the_next_ones(
    wire: WireServer, form: str, settings: Settings
) -> None:
    settings.MODEL_IDLE_SECONDS = 0.6
    wire.play(Answer(text="late", first_byte_ms=900))
    assert text_of(await said_by(form)) == "late"


async def test_a_page_instead_of_a_stream_is_named_in_the_log(wire: WireServer, form: str) -> None:
    wire.play(Answer(document=PAGE, content_type="text/html"))
    assert "html" in (await failure_of(form)).detail


async def test_nobody_listening_is_a_network_failure(
    wire: WireServer, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BASE_URLS[form], f"http://127.0.0.1:1{FORMATS[form].root}")
    assert (await failure_of(form)).kind == "network"


async def test_a_redirect_is_not_followed_with_the_key(wire: WireServer, form: str) -> None:
    wire.play(Answer(status=307, headers={"location": f"{wire.url}/elsewhere"}))
    assert (await failure_of(form)).kind == "protocol"
    assert len(wire.requests) == 1


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in MENDS_TEXT])
async def test_text_that_is_not_unicode_is_a_bad_request(wire: WireServer, form: str) -> None:
    request = ModelRequest(model="m", system="half \ud83d", history=HELLO)
    assert (await failure_of(form, request)).kind == "bad_request"
    assert not wire.requests


async def test_after_a_failure_the_next_call_is_fine(wire: WireServer, form: str) -> None:
    wire.play(Answer(text="broken off " * 9, cut="reset", cut_after=5))
    assert (await failure_of(form)).kind == "network"
    assert finish_of(await said_by(form)) == "stop"


async def test_many_readers_that_leave_at_once_leave_nothing_open(
    wire: WireServer, form: str
) -> None:
    wire.play(*[Answer(text="abc" * 20, cut="hang", cut_after=6)] * 20)
    tasks = [asyncio.create_task(said_by(form)) for _ in range(20)]
    await wire.until(lambda: wire.streaming == 20)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await wire.until(lambda: wire.aborted == 20 and wire.streaming == 0)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(401, "", "Who are you?"),
        Answer(document=PAGE, content_type="text/html"),
        Answer(document="[", content_type="application/json"),
    ],
)
async def test_a_list_of_models_that_does_not_come_is_a_failure_in_words(
    wire: WireServer, form: str, answer: Answer
) -> None:
    wire.play(answer)
    provider, _, account = await find_provider(f"{form}:m")
    with pytest.raises(ProviderError) as raised:
        await provider.list_models(account)
    assert raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "bedrock"])
async def test_models_are_listed_without_taking_from_the_script(
    wire: WireServer, form: str
) -> None:
    wire.play(Answer(text="Hi."))
    provider, _, account = await find_provider(f"{form}:m")
    assert "scripted" in [model.name for model in await provider.list_models(account)]
    assert text_of(await said_by(form, a_request())) == "Hi."
