"""The words of a refusal, read from a body of any kind."""

import pytest

from mcpconfig.values.errors import Evidence, status_error
from mcpconfig.values.refusal_words import is_host_check, read_words, shorten_words

HTML = "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"Invalid Host header", "text/plain", "Invalid Host header"),
        (b"Invalid Host header", "", "Invalid Host header"),
        (b'{"error": "Invalid origin"}', "application/json", "Invalid origin"),
        (b'{"detail": [{"msg": "Not you"}]}', "application/problem+json", "Not you"),
        (b'{"error": {"code": 7, "message": "Not you"}}', "text/plain", "Not you"),
        (b'{"error": "access_denied", "error_description": "No"}', "application/json", "No"),
        (
            b"<html><head><style>p{}</style><script>alert('x')</script></head>"
            b"<body><h1>Blocked</h1><p>by &lt;rule&gt;\n 7</p></body>",
            HTML,
            "Blocked by <rule> 7",
        ),
        (b"<script>never ended", HTML, ""),
        (b"</script></script>Blocked", HTML, "Blocked"),
        ("Zugriff verweigert: für Ä".encode("latin-1"), "text/plain; charset=iso-8859-1", None),
        ("größer".encode(), "text/plain; charset=utf-16", "größer"),
        (b"left\xe2\x80\xaeright\x1b[31m\x00", "text/plain", "left right [31m"),
        ("Schlü".encode() + b"\xc3", "text/plain", "Schlü"),
        (b"\x89PNG", "image/png", ""),
        (b"Forbidden", "text/plain", ""),
        (b"<html><title>403 Forbidden</title><hr>nginx</html>", HTML, ""),
        (b'{"error": ["cut', "application/json", ""),
        (b"[" * 4000, "application/json", ""),
        (b"", "text/plain", ""),
    ],
)
def test_words_are_read_without_markup_or_controls(
    body: bytes, kind: str, words: str | None
) -> None:
    expected = body.decode("latin-1") if words is None else words
    assert read_words(body, kind, 403) == expected


def test_words_are_short() -> None:
    assert len(shorten_words("word " * 200)) == 300


@pytest.mark.parametrize(
    ("words", "status", "is_one"),
    [
        ("Invalid Host header", 403, True),
        ("Invalid Host: wiki.example", 403, True),
        ("Invalid HTTP_HOST header: 'wiki.example'. You may need ALLOWED_HOSTS", 400, True),
        ("DisallowedHost at /mcp", 400, True),
        ("Origin https://x.example is not allowed", 403, True),
        ("Request rejected: DNS rebinding protection", 403, True),
        ("", 421, True),
        ("You may not read this", 403, False),
        ("Ask the host of this party for the original", 403, False),
        ("", 403, False),
    ],
)
def test_a_check_of_the_host_is_recognised(words: str, status: int, is_one: bool) -> None:
    assert is_host_check(words, status) == is_one


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 421, 429, 500])
def test_credentials_are_blamed_only_if_some_were_sent(status: int) -> None:
    bare = status_error(status, Evidence(said="Go away."))
    assert "stored credentials" not in bare.message
    assert bare.message.endswith("The service said: “Go away”.")
    with_some = status_error(status, Evidence(has_credentials=True))
    assert ("stored credentials" in with_some.message) == (status in (401, 403))
