"""What a member reads about a failed model call: whole sentences about any provider."""

import re

import pytest

from chatapp.providers.account import ProviderNames
from chatapp.providers.events import ErrorKind
from chatapp.providers.failures import (
    SENTENCES,
    classify,
    missing_key_error,
    provider_error,
    read_retry_after,
)

NAMED = ProviderNames(label="OpenAI", key_variable="OPENAI_API_KEY", url_variable="OPENAI_BASE_URL")
UNNAMED = ProviderNames(
    label="the model server at llm.example:8080", key_variable="KEY", url_variable="URL"
)


@pytest.mark.parametrize("names", [NAMED, UNNAMED], ids=["a name", "a description"])
@pytest.mark.parametrize("kind", SENTENCES)
def test_every_failure_is_a_sentence_with_its_capital_at_the_beginning(
    kind: ErrorKind, names: ProviderNames
) -> None:
    error = provider_error(kind, names)
    assert error.message[0].isupper() and error.message.endswith(".")
    assert not re.search(r"(?<!^)\bThe model server", error.message)
    assert error.hint[0].isupper() and error.hint.endswith(".")


def test_a_server_is_spoken_of_in_the_middle_of_a_sentence() -> None:
    said = provider_error("network", UNNAMED).message
    assert said == "The connection to the model server at llm.example:8080 failed."
    assert provider_error("network", NAMED).message == "The connection to OpenAI failed."
    assert (
        missing_key_error(UNNAMED).message
        == "There is no key for the model server at llm.example:8080 on this server."
    )


def test_the_providers_own_words_keep_their_capitals() -> None:
    error = provider_error("bad_request", UNNAMED, detail="maxTokens is wrong")
    assert error.message == (
        "The model server at llm.example:8080 did not accept the request. "
        "Details from the provider: maxTokens is wrong"
    )


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers) == seconds


def test_every_kind_has_a_sentence_and_says_what_to_do() -> None:
    assert set(SENTENCES) == set(ErrorKind.__args__)  # type: ignore[attr-defined]
    assert all(message.endswith(".") and hint for message, hint in SENTENCES.values())


MANY = "Too many tokens, please wait before trying again."


@pytest.mark.parametrize(
    ("status", "codes", "text", "kind"),
    [
        (429, (), MANY, "rate_limit"),
        (None, ("throttlingexception",), MANY, "rate_limit"),
        (None, ("429",), MANY, "rate_limit"),
        (400, ("throttlingexception",), MANY, "rate_limit"),
        (429, ("insufficient_quota",), MANY, "quota"),
        (429, ("context_length_exceeded",), MANY, "too_long"),
        (400, ("validationexception",), "Too many tokens.", "too_long"),
        (400, (), "prompt is too long: 5 tokens > 4 maximum", "too_long"),
        (None, ("9" * 5_000,), "What?", "server"),
    ],
)
def test_a_limit_on_requests_is_no_limit_of_the_model(
    status: int | None, codes: tuple[str, ...], text: str, kind: ErrorKind
) -> None:
    assert classify(status, codes, text) == kind


SIZES = {
    "This model's maximum context length is 8,192 tokens. However, you asked for 9000.": 8192,
    "prompt is too long: 205000 tokens > 200000 maximum": 200_000,
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000": 200_000,
    "The input token count (99) exceeds the maximum number of tokens allowed (98).": 98,
    "request (8210 tokens) exceeds the available context size (8192 tokens)": 8192,
    "the request exceeds the available context size, try increasing it (n_ctx: 4096)": 4096,
    "exceed_context_size_error": None,
    "Trying to keep the first 10136 tokens when context the overflows. However, the model is "
    "loaded with context length of only 7866 tokens, which is not enough.": 7866,
    "Reached context length of 4096 tokens with model (arch: qwen3vlmoe) that does not currently "
    "support mid-generation context overflow.": 4096,
    "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)": 7424,
    "Context size has been exceeded.": None,
    "Requested tokens (2285) exceed context window of 2048": 2048,
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length": 32_768,
    f"maximum context length is {'9' * 5_000} tokens": None,
}


@pytest.mark.parametrize("complaint", SIZES)
def test_what_servers_say_of_a_request_that_is_too_long_is_understood(complaint: str) -> None:
    assert classify(400, (), complaint) == "too_long"
    assert provider_error("too_long", NAMED, detail=complaint).limit_tokens == SIZES[complaint]
