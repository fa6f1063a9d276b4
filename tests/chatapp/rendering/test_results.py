"""Results of tools as pieces: what is shown how, and that nothing of it becomes markup."""

import base64
import json
from typing import Any

import pytest

from chatapp.live.page_facts import render_call
from chatapp.models import Member, ToolCall, Turn
from chatapp.rendering.results import MAX_BYTES, SHOWN_PIECES, build_call_pieces, detect_media_type
from tests.dom_tree import Element, root_of
from tests.peers.reading_room import PNG, SVG, WAV, picture_block
from tests.turns import rows

LURE = '</pre><script>alert(1)</script><img src=x onerror=1><b id="thread" hx-get="/">'


@pytest.fixture
def turn(owner: Member) -> Turn:
    return rows.turn(owner)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call_with(turn: Turn, *blocks: dict[str, Any], **result: Any) -> ToolCall:
    return rows.call(turn, result={"content": list(blocks), **result})


def render(turn: Turn, *blocks: dict[str, Any], **result: Any) -> Element:
    """The fragment as a page and a frame have it."""
    return root_of(render_call(call_with(turn, *blocks, **result)))


def kinds(element: Element) -> list[str]:
    return [piece["data-kind"] for piece in element.all(class_="piece")]


def words_of(element: Element) -> str:
    return "".join(element.one("pre")._words())


# --- words and JSON ------------------------------------------------------------------------
def test_words_keep_their_line_breaks_and_are_no_markdown(turn: Turn) -> None:
    element = render(turn, text("# one\n\n  *two*"))
    assert words_of(element) == "# one\n\n  *two*"
    assert element.all("h1") == []


def test_json_in_words_is_set_out_and_coloured(turn: Turn) -> None:
    element = render(turn, text('{"name":"Ada","deep":{"n":[1,2]}}'))
    assert words_of(element).startswith('{\n  "name": "Ada",')
    assert "code" in element.one("pre")["class"]
    assert element.one("pre").all("span")


@pytest.mark.parametrize(
    "words",
    [
        '{"a": 1, "a": 2}',
        "[1, NaN]",
        "[1e999]",
        "{not json}",
        '"a word"',
        "42",
        "[" * 100_000 + "]" * 100_000,
        "[" + "9" * 5_000 + "]",
    ],
)
def test_what_would_not_read_back_the_same_is_shown_as_it_came(turn: Turn, words: str) -> None:
    assert words_of(render(turn, text(words))) == words[:20_000]


def test_a_long_text_is_folded_and_all_of_it_can_be_shown(turn: Turn) -> None:
    element = render(turn, text("line\n" * 60))
    folded = element.one("details", class_="long")
    assert "300 characters. Show all" in folded.one("summary").text
    assert words_of(folded) == "line\n" * 60
    assert folded["id"].startswith("tool-call-")  # so that a frame leaves it open


def test_a_short_text_is_not_folded(turn: Turn) -> None:
    assert render(turn, text("short")).all("details", class_="long") == []


def test_hidden_characters_in_json_are_drawn(turn: Turn) -> None:
    element = render(turn, text(json.dumps({"a\u202e": "b\u200b"}, ensure_ascii=False)))
    assert "⟨U+202E⟩" in element.text and "⟨U+200B⟩" in element.text


@pytest.mark.parametrize(
    "block",
    [
        text(LURE),
        text(json.dumps({LURE: LURE})),
        {"type": LURE, "uri": LURE, "mimeType": LURE},
        {"type": "resource", "resource": {"uri": LURE, "mimeType": "text/html", "text": LURE}},
        {"type": "resource", "resource": {"uri": LURE, "mimeType": LURE, "blob": "AAAA"}},
        {"type": "resource_link", "uri": LURE, "name": LURE, "description": LURE},
        {"type": "image", "mimeType": LURE, "data": LURE},
        {"type": "resource", "resource": LURE},
        {"type": "image", "data": 7},
        {},
    ],
)
def test_nothing_that_a_service_says_becomes_markup(turn: Turn, block: dict[str, Any]) -> None:
    element = render(turn, block, structured={LURE: LURE})
    assert element.all("script") == [] and element.all("img") == []
    assert element.all(id="thread") == []
    assert all("onerror" not in each and "hx-get" not in each for each in element.all())


# --- structured values ---------------------------------------------------------------------
def test_a_plain_object_is_a_list_of_values(turn: Turn) -> None:
    table = render(turn, structured={"town": "Bern", "open": True, "fee": None}).one("table")
    assert [row.text for row in table.all("tr")] == ["town Bern", "open yes", "fee none"]
    assert [each["scope"] for each in table.all("th")] == ["row"] * 3


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"items": rows}])
def test_like_objects_are_a_table(turn: Turn, wrap: Any) -> None:
    table = render(turn, structured=wrap([{"n": 1, "t": "a"}, {"n": 2}])).one("table")
    assert [each.text for each in table.all("th")] == ["n", "t"]
    assert [row.text for row in table.one("tbody").all("tr")] == ["1 a", "2"]


@pytest.mark.parametrize(
    "value",
    [
        {"deep": {"er": 1}, "b": 2},
        [{"n": number} for number in range(501)],
        [{str(number): 1 for number in range(21)}],
        {"long": "x" * 301},
        [1, 2, 3],
        {"items": []},
    ],
)
def test_what_a_table_would_distort_is_json(turn: Turn, value: Any) -> None:
    element = render(turn, structured=value)
    assert element.all("table") == []
    assert json.loads(words_of(element)) == value


def test_a_huge_value_is_shown_at_little_cost(turn: Turn) -> None:
    call = call_with(turn, structured=[{"n": number, "deep": {}} for number in range(30_000)])
    (piece,) = build_call_pieces(call)
    assert piece.left_out > 500_000 and len(piece.text) < 200_000


def test_a_value_that_the_words_repeat_is_shown_once(turn: Turn) -> None:
    assert kinds(render(turn, text('{"n": 1}'), structured={"n": 1})) == ["table"]
    assert kinds(render(turn, text("hello"), structured={"result": "hello"})) == ["text"]
    assert kinds(render(turn, text("7"), structured={"n": 1})) == ["text", "table"]


# --- bytes ---------------------------------------------------------------------------------
def test_a_picture_comes_from_an_address_of_ours_and_is_in_no_frame(turn: Turn) -> None:
    call = call_with(turn, text("Look:"), picture_block())
    html = render_call(call)
    assert root_of(html).one("img")["src"] == f"/calls/{call.pk}/content/1"
    assert base64.b64encode(PNG).decode() not in html


def test_a_sound_has_its_controls(turn: Turn) -> None:
    sound = render(turn, picture_block(WAV, "audio/wav")).one("audio")
    assert "controls" in sound and sound["preload"] == "none"


@pytest.mark.parametrize(
    ("data", "claimed", "kind"),
    [
        (SVG, "image/svg+xml", "text"),
        (b"<html>", "text/html; charset=utf-8", "text"),
        (b"\xff\xfe", "text/plain", "file"),
        (b"a\x00b", "text/plain", "file"),
        (SVG, "image/png", "file"),
        (b"<html>", "image/png", "file"),
        (PNG, "text/html", "image"),
        (WAV, "image/png", "audio"),
        (b"", "image/png", "file"),
    ],
)
def test_bytes_are_what_they_are_and_not_what_they_are_called(
    turn: Turn, data: bytes, claimed: str, kind: str
) -> None:
    block = picture_block(data, claimed) | {"type": "image"}
    assert kinds(render(turn, block)) == [kind]


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF....WEBPVP8 ", "image/webp"),
        (WAV, "audio/wav"),
        (b"OggS....", "audio/ogg"),
        (b"fLaC....", "audio/flac"),
        (b"ID3\x04", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"....ftypM4A ", "audio/mp4"),
        (b"BM......", ""),
        (b"%PDF-1.7", ""),
        (b"\xff\xfe<\x00s\x00c\x00", ""),
        (SVG, ""),
    ],
)
def test_a_format_is_known_by_its_first_bytes(data: bytes, media_type: str) -> None:
    assert detect_media_type(data) == media_type


def test_a_drawing_is_shown_as_its_source(turn: Turn) -> None:
    element = render(turn, picture_block(SVG, "image/svg+xml"))
    assert words_of(element) == SVG.decode()
    assert element.all("script") == [] and element.one(class_="piece").one("h4").text


def test_bytes_beyond_the_bound_are_not_shown(turn: Turn) -> None:
    assert kinds(render(turn, picture_block(PNG + b"\x00" * MAX_BYTES))) == ["file"]


def test_an_embedded_page_is_shown_as_source(turn: Turn) -> None:
    page = {"uri": "ui://a", "mimeType": "text/html; charset=utf-8", "text": "<h1>Hi</h1>"}
    element = render(turn, {"type": "resource", "resource": page})
    assert words_of(element) == "<h1>Hi</h1>"
    assert element.one(class_="piece").one("h4").text == "ui://a"


# --- links, failures, many pieces ------------------------------------------------------------
def test_a_link_is_opened_here_and_never_followed(turn: Turn) -> None:
    link = {"type": "resource_link", "uri": "https://evil.example/x", "name": "Log", "size": 2048}
    call = call_with(turn, link)
    element = root_of(render_call(call))
    assert element.one(class_="resource-link").one("form")["action"].startswith("/calls/")
    assert "https://evil.example/x · 2.0" in element.text.replace("\xa0", " ")
    assert all("evil" not in each["href"] for each in element.all("a"))


def test_a_link_of_a_removed_service_cannot_be_opened(turn: Turn) -> None:
    call = rows.call(turn, service=None, result={"content": [{"type": "resource_link"}]})
    assert root_of(render_call(call)).one(class_="resource-link").all("form") == []


def test_a_thousand_pieces_do_not_flood_the_page(turn: Turn) -> None:
    assert len(build_call_pieces(call_with(turn, *[text("x")] * 1_000))) == SHOWN_PIECES
