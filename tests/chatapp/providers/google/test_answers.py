"""What the Gemini provider makes of answers and errors that only Gemini has."""

import json
from typing import Any

import pytest

from chatapp.providers.events import ErrorKind, Finished, Usage
from tests.chatapp.providers.stories import failure_of, finish_of, opaque_of, said_by, text_of
from tests.wire.script import Answer
from tests.wire.server import WireServer

QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure"}
DAY = {**QUOTA, "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}
MINUTE = {**QUOTA, "violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}
SOON = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "14s"}
NO_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
EXCEEDED = "You exceeded your current quota, please check your plan and billing details."


def chunk(*parts: dict[str, Any], reason: str = "", **more: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts)}} | ({"finishReason": reason} if reason else {})
    return {"candidates": [candidate], **more}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "filtered"),
        ("RECITATION", "filtered"),
        ("PROHIBITED_CONTENT", "filtered"),
        ("MODEL_ARMOR", "filtered"),
        ("SOMETHING_OF_2027", "stop"),
    ],
)
async def test_each_reason_to_finish_has_a_meaning(
    wire: WireServer, reason: str, finish: str
) -> None:
    wire.play(Answer(events=(chunk({"text": "Well"}), chunk(reason=reason))))
    events = await said_by("google")
    assert (text_of(events), finish_of(events)) == ("Well", finish)


async def test_the_sdk_does_not_go_on_by_itself(wire: WireServer) -> None:
    end = chunk({"text": "Well"}, reason="CONTINUATION")
    end["candidates"][0]["continuationToken"] = "AAAA"
    wire.play(Answer(events=(end,)))
    assert finish_of(await said_by("google")) == "length"
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("MALFORMED_FUNCTION_CALL", "server"),
        ("UNEXPECTED_TOOL_CALL", "server"),
        ("OTHER", "server"),
        ("MISSING_THOUGHT_SIGNATURE", "bad_request"),
    ],
)
async def test_an_answer_that_failed_is_an_error(
    wire: WireServer, reason: str, kind: ErrorKind
) -> None:
    wire.play(Answer(events=(chunk({"text": "Well"}), chunk(reason=reason))))
    error = await failure_of("google")
    assert (error.kind, error.detail) == (kind, reason)


async def test_a_blocked_question_is_filtered(wire: WireServer) -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}
    wire.play(Answer(events=(blocked,)))
    assert [event for event in await said_by("google") if not isinstance(event, Usage)] == [
        Finished(reason="filtered")
    ]


async def test_a_reason_that_says_nothing_does_not_end_the_answer(wire: WireServer) -> None:
    unspecified = chunk({"text": "We"}, reason="FINISH_REASON_UNSPECIFIED")
    wire.play(Answer(events=(unspecified, chunk({"text": "ll"}, reason="STOP"))))
    assert text_of(await said_by("google")) == "Well"
    wire.play(Answer(events=(unspecified,)))
    assert (await failure_of("google")).kind == "protocol"


async def test_tokens_are_merged_also_from_behind_the_end(wire: WireServer) -> None:
    first = {"promptTokenCount": 90, "toolUsePromptTokenCount": 30, "cachedContentTokenCount": 64}
    last = {"promptTokenCount": 90, "candidatesTokenCount": 18, "thoughtsTokenCount": 12}
    wire.play(
        Answer(
            events=(
                chunk({"text": "Well"}, usageMetadata=first),
                chunk(reason="STOP"),
                {"usageMetadata": last},
            )
        )
    )
    assert (await said_by("google"))[-2] == Usage(
        input_tokens=120, cached_tokens=64, output_tokens=30, reasoning_tokens=12
    )


async def test_a_sloppy_answer_is_read_all_the_same(wire: WireServer) -> None:
    wire.play(Answer(text="Well", reasoning="Hm", is_sloppy=True))
    events = await said_by("google")
    assert (text_of(events), finish_of(events)) == ("Well", "stop")


async def test_what_cannot_be_stored_is_not_in_what_travels_back(wire: WireServer) -> None:
    signed = {"text": "We\0ll", "thoughtSignature": "AAAA"}
    wire.play(Answer(events=(chunk(signed, reason="STOP"),)))
    events = await said_by("google")
    assert text_of(events) == "Well"
    assert "\0" not in repr(opaque_of(events)[0].data)


def error(status: int, name: str, message: str = "No", *details: Any) -> Answer:
    said = {"code": name, "message": message, "details": list(details)}
    return Answer(status=status, error=said)


@pytest.mark.parametrize(
    ("kind", "wait", "answer"),
    [
        ("auth", None, error(400, "INVALID_ARGUMENT", "API key not valid.", NO_KEY)),
        ("auth", None, error(401, "UNAUTHENTICATED")),
        ("auth", None, error(403, "PERMISSION_DENIED")),
        ("quota", None, error(429, "RESOURCE_EXHAUSTED", EXCEEDED, DAY)),
        ("quota", 14, error(429, "RESOURCE_EXHAUSTED", EXCEEDED, DAY, SOON)),
        ("rate_limit", 14, error(429, "RESOURCE_EXHAUSTED", EXCEEDED, MINUTE, SOON)),
        ("rate_limit", None, error(429, "RESOURCE_EXHAUSTED", EXCEEDED, {"retryDelay": "soon"})),
        ("overloaded", None, error(503, "UNAVAILABLE", "The model is overloaded.")),
        (
            "too_long",
            None,
            error(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum (8)."),
        ),
        ("bad_request", None, error(400, "INVALID_ARGUMENT")),
        ("not_found", None, error(404, "NOT_FOUND")),
        ("server", None, error(500, "INTERNAL")),
        ("timeout", None, error(504, "DEADLINE_EXCEEDED")),
    ],
)
async def test_each_error_of_google_has_its_kind_and_wait(
    wire: WireServer, kind: ErrorKind, wait: float | None, answer: Answer
) -> None:
    wire.play(answer)
    found = await failure_of("google")
    assert (found.kind, found.retry_after) == (kind, wait)


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("overloaded", {"error": {"code": 503, "status": "UNAVAILABLE", "message": "Busy"}}),
        ("rate_limit", {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": ""}}),
        ("protocol", {"error": {"message": "An error without a code"}}),
        ("protocol", {"candidates": [{"content": {"parts": "what is this"}}]}),
        ("protocol", {"candidates": [{"content": {"parts": [{"functionCall": {"args": 1}}]}}]}),
    ],
)
async def test_an_error_of_any_form_inside_the_stream_has_its_kind(
    wire: WireServer, kind: ErrorKind, event: Any
) -> None:
    wire.play(Answer(events=(chunk({"text": "Half an"}), event, chunk(reason="STOP"))))
    assert (await failure_of("google")).kind == kind


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("overloaded", json.dumps({"error": {"code": 503, "message": "Busy"}}, indent=2)),
        ("protocol", "{}"),
        ("protocol", "what is this"),
    ],
)
async def test_an_error_without_the_form_of_an_event_has_its_kind(
    wire: WireServer, kind: ErrorKind, lines: str
) -> None:
    wire.play(Answer(events=(chunk({"text": "Half an"}), f"{lines}\n")))
    assert (await failure_of("google")).kind == kind


async def test_comments_and_unknown_fields_of_a_part_are_ignored(wire: WireServer) -> None:
    strange = {"text": "We", "somethingNew": {"a": 1}}
    wire.play(
        Answer(events=(chunk(strange), ": a comment\n\n", chunk({"text": "ll"}, reason="STOP")))
    )
    assert text_of(await said_by("google")) == "Well"


async def test_an_error_page_is_not_quoted(wire: WireServer) -> None:
    page = "<html>secret corner of a proxy</html>"
    wire.play(Answer(status=502, document=page, content_type="text/html"))
    found = await failure_of("google")
    assert (found.kind, found.detail) == ("server", "a page")
