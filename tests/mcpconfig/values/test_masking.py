"""Masking: no form of a credential stays in a text for people."""

import json
import re
import time
from urllib.parse import quote, urlencode

import pytest

from mcpconfig.values.masking import _PIECES, MASK, list_secret_forms, mask_headers, mask_secrets

CANARY = 'canary/secret+0123456789="é'


@pytest.mark.parametrize(
    "text",
    [
        f"before {CANARY} after",
        json.dumps({"said": CANARY}),
        json.dumps({"said": CANARY}, ensure_ascii=False),
        json.dumps({"text": json.dumps({"said": CANARY})}),
        f"https://x.example/?x={quote(CANARY)}",
        f"https://x.example/?x={quote(CANARY, '')}",
        urlencode({"x": CANARY}),
    ],
)
def test_a_known_secret_is_hidden_in_every_way_of_writing_it(text: str) -> None:
    shown = mask_secrets(text, list_secret_forms([CANARY]))

    assert "0123456789" not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "hunter2"}',
        '{"passphrase":"hunter2"}',
        '{"PassWord" :\n "hunter2"}',
        '{"userPassword": "say \\"hunter2\\" twice"}',
        '{"password": "hunter2',
        '{"password": "hunter2\\',
        '{"apiKey": "hunter2"}',
        '{"api-key": "hunter2"}',
        '{"private_key": "hunter2"}',
        '{"client_secret": "hunter2"}',
        '{"access_token": "hunter2", "expires_in": 60}',
        '{"code_verifier": "hunter2"}',
        '{"client_assertion": "hunter2"}',
        '{"Set-Cookie": "sid=hunter2"}',
        '{"password": hunter2}',
        '{"tokens": ["hunter2"]}',
        '{"credentials": {"user": "a", "pin": "hunter2"}}',
        '{"credentials": {"user": "a", "deep": [["hunter2',
        '{"text": "{\\"password\\": \\"hunter2\\"}"}',
        '{"text": "{\\"password\\": \\"hunter2',
        'event: message\ndata: {"token": "hunter2"}\n\n',
        "grant_type=x&code=hunter2&redirect_uri=y",
        "client_id=x&client_secret=hunter2",
        "refresh_token=hunter2",
        "https://x.example/callback?code=hunter2&state=hunter2",
        "https://x.example/#access_token=hunter2",
        '{"url": "https://x.example/cb?a=b\\u0026code=hunter2"}',
        "https://x.example/file?X-Amz-Security-Token=hunter2&sig=hunter2",
        "Authorization: Bearer hunter2hunter2",
        "it says: basic aHVudGVyMjpodW50ZXIy hunter".replace(" hunter", ""),
    ],
)
def test_what_its_name_calls_a_secret_is_hidden(text: str) -> None:
    shown = mask_secrets(text, [])

    assert "hunter2" not in shown
    assert "aHVudGVy" not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        '{"progressToken": "7", "nextCursor": "page-2"}',
        '{"max_tokens": 4096, "inputTokens":12}',
        '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Unknown tool"}}',
        '{"code": "print(1)", "state": "open", "key": "A minor"}',
        "Nothing to see here.",
        "a = b, code = 7",
        "",
    ],
)
def test_what_is_needed_to_read_a_trace_stays(text: str) -> None:
    assert mask_secrets(text, []) == text


def test_the_rest_of_a_document_survives_beside_a_masked_object() -> None:
    shown = mask_secrets('{"credentials": {"a": 1}, "name": "kept"}', [])

    assert json.loads(shown) == {"credentials": MASK, "name": "kept"}


def test_a_cut_through_a_known_secret_leaves_none_of_it() -> None:
    whole = "x" * 50 + CANARY + "y" * 50
    for length in range(len(whole)):
        shown = mask_secrets(whole[:length], list_secret_forms([CANARY]), was_cut=True)
        assert "canary" not in shown, length
        assert "can" not in shown, length


def test_many_masked_secrets_do_not_pull_a_half_one_into_view() -> None:
    text = (CANARY * 100)[:-8]

    assert "canary" not in mask_secrets(text, list_secret_forms([CANARY]), was_cut=True)


def test_a_secret_that_is_part_of_another_does_not_leave_its_rest() -> None:
    assert mask_secrets("abcd-efgh", list_secret_forms(["abcd", "abcd-efgh"])) == MASK


def test_short_values_are_no_secrets() -> None:
    assert mask_secrets("a b c", list_secret_forms(["a", ""])) == "a b c"


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization", "Mcp-Session-Id"),
        *("X-Api-Key", "X-Auth-Token", "X-Secret", "Ocp-Apim-Subscription-Key", "X-Basic-Auth"),
    ],
)
def test_a_header_that_opens_something_is_hidden(name: str) -> None:
    assert mask_headers({name: "hunter2"}, []) == {name: MASK}


def test_other_headers_are_shown_without_what_they_carry() -> None:
    headers = {
        "location": "https://x.example/?code=hunter2&a=b",
        "www-authenticate": 'Bearer realm="x", scope="read"',
        "x-echo": f"you sent {CANARY}",
        "content-type": "text/plain",
    }

    shown = mask_headers(headers, list_secret_forms([CANARY]))

    assert shown == {
        "location": f"https://x.example/?code={MASK}&a=b",
        "www-authenticate": 'Bearer realm="x", scope="read"',
        "x-echo": f"you sent {MASK}",
        "content-type": "text/plain",
    }


@pytest.mark.parametrize(
    "piece",
    ['"', "token", '"token', '"token"', '"token": ', '"token": "\\', "\\", '\\"', "?token=", "{["],
)
def test_no_text_takes_long_to_mask(piece: str) -> None:
    text = (piece * 30_000)[:24_000]
    began = time.thread_time()

    mask_secrets(text, list_secret_forms([CANARY]))

    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize("letter", sorted(set("".join(_PIECES)) - {"="}))
def test_no_other_case_of_a_letter_slips_through_the_quick_look(letter: str) -> None:
    """The patterns ignore case in ways of their own: a Kelvin sign is a k to them."""
    pattern = re.compile(letter, re.IGNORECASE)

    others = {char for char in map(chr, range(0x11000)) if pattern.fullmatch(char)}

    assert {other.casefold() for other in others} == {letter}


@pytest.mark.parametrize("text", ['{"\u017fecret": "hunter2"}', '{"to\u212aen": "hunter2"}'])
def test_a_name_in_odd_letters_is_one_that_calls_a_secret(text: str) -> None:
    assert "hunter2" not in mask_secrets(text, [])


@pytest.mark.parametrize("text", ["Use {} please.", '{{"note": "{}"}}', "see\n{}", "({})"])
def test_a_token_of_ours_is_masked_wherever_it_stands(text: str) -> None:
    secret = "Ssg0TVuquqmkUrzWO8tleWJvTHWGdEsEggOMmqY-_Kb"
    said = mask_secrets(text.format(f"cs_da68a107_{secret}"), ())
    assert secret not in said and "cs_da68a107_•••" in said


def test_what_only_begins_like_a_token_of_ours_stays() -> None:
    assert mask_secrets("cs_da68a107_short and cs_other", ()) == "cs_da68a107_short and cs_other"
