"""The outline of answers that are too large to keep, read in pieces of any size."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpconfig.net.answer_scanner import Budget, EventScanner, GaveUp, JsonScanner

ID = "281474976710657"
HEAD = '{"jsonrpc": "2.0", "id": 281474976710657, '
CONTENT = [{"type": "text", "text": 'braces } ] { [ and "quotes" \\ and \\" \u2028 é'}]


def answer(result: Any = None, **more: Any) -> dict[str, Any]:
    said = {"content": CONTENT} if result is None else result
    return {"jsonrpc": "2.0", "id": int(ID), "result": said, **more}


def scan(text: str | bytes, size: int = 1_000_000) -> JsonScanner:
    scanner = JsonScanner(ID, Budget())
    body = text.encode() if isinstance(text, str) else text
    for at in range(0, len(body), size):
        scanner.feed(body[at : at + size])
    scanner.finish()
    return scanner


def scan_events(body: bytes, size: int = 1_000_000) -> EventScanner:
    scanner = EventScanner(ID, Budget())
    for at in range(0, len(body), size):
        scanner.feed(body[at : at + size])
    scanner.finish()
    return scanner


WHOLE = [
    (answer(), "succeeded"),
    (answer({"content": [], "isError": False, "resultType": "complete"}), "succeeded"),
    (answer({"isError": True, "content": CONTENT}), "failed"),
    (answer({"content": CONTENT, "structuredContent": {"isError": True, "id": 7}}), "succeeded"),
    (answer({"content": [{"isError": True, "result": {}, "error": {}}]}), "succeeded"),
    (answer() | {"id": ID}, "succeeded"),
    (
        {"jsonrpc": "2.0", "id": int(ID), "error": {"code": -32602, "message": "no" * 200}},
        "refused",
    ),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000_000])
@pytest.mark.parametrize(("message", "verdict"), WHOLE)
def test_a_whole_answer_has_its_verdict_however_it_is_cut(
    message: dict[str, Any], verdict: str, size: int
) -> None:
    for indent in (None, 2):
        for ascii_only in (True, False):
            text = json.dumps(message, indent=indent, ensure_ascii=ascii_only)
            assert scan(text, size).verdict == verdict
            if indent is None:
                for end in ("\n", "\r", "\r\n"):
                    event = f"id: 1{end}event: message{end}data: {text}{end}{end}"
                    assert scan_events(event.encode(), size).verdict == verdict


def test_the_code_of_an_error_is_read() -> None:
    assert scan(HEAD + '"error": {"code": -32602, "data": [1]}}').code == -32602
    assert scan(HEAD + '"error": {"code": "x"}}').code is None


NOT_WHOLE = [
    json.dumps(answer())[:-1],
    json.dumps(answer())[:-1] + "]",
    json.dumps(answer()) + json.dumps(answer()),
    json.dumps(answer()) + "}",
    json.dumps(answer()) + " x",
    json.dumps([answer()]),
    json.dumps(answer() | {"id": 7}),
    json.dumps(answer() | {"id": None}),
    json.dumps(answer(error={"code": 1, "message": ""})),
    json.dumps(answer({"content": CONTENT, "resultType": "input_required"})),
    json.dumps(answer({"resultType": "task", "content": []})),
    json.dumps(answer({"content": "text"})),
    json.dumps(answer({"content": [], "isError": "false"})),
    json.dumps(answer({})),
    json.dumps(answer("text")),
    json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": answer()}),
    HEAD + '"result": {"content": []}, "result": {"content": []}}',
    HEAD + '"result": {"content": [], "isError": false, "isError": true}}',
    HEAD + '"result": {"content": ["}}]}}',
    HEAD + '"result": {"content": [}]}}',
    HEAD + '"result": {"content": []}, "x": "never ended}',
    json.dumps({"id": int(ID), "result": {"content": []}}),
    json.dumps(answer() | {"jsonrpc": "1.0"}),
    json.dumps(answer() | {"method": "tools/call"}),
    *(
        json.dumps({"jsonrpc": "2.0", "id": int(ID), "error": error})
        for error in (
            {},
            {"code": 1},
            {"message": "no"},
            {"code": "1", "message": "no"},
            {"code": 1.5, "message": "no"},
            {"code": 1, "message": ["no"]},
        )
    ),
    *(
        HEAD + '"result": {"content": [], ' + malformed
        for malformed in (
            '"isError":}}',
            '"isError"}}',
            '"isError" true}}',
            '"isError":true,}}',
            '"isError"::true}}',
            '"isError":true "x":1}}',
            '"isError":true,,"x":1}}',
            '"isError":true:1}}',
            '"isError",true}}',
            '"isError":"x" true}}',
            '"isError":tr ue}}',
            '"isError":tru}}',
            '"x":01}}',
            '"x":NaN}}',
            '"x":{}{}}}',
            '"x":[]"y"}}',
            "true:1}}",
            "{}:1}}",
            '"x":1},}',
            '"x":1}}:',
        )
    ),
    *(
        HEAD + '"result": {"content": ' + malformed
        for malformed in (
            '["a" "isError":true]}}',
            '["a",]}}',
            '["a" 1]}}',
            "[1 2]}}",
            "[,1]}}",
            "[{}{}]}}",
            '[{"a":}]}}',
            '[{"a"::1}]}}',
            "[{1:2}]}}",
            "[[]1]}}",
        )
    ),
    '"' + json.dumps(answer()).replace('"', "'"),
    "",
    "null",
]


@pytest.mark.parametrize("text", NOT_WHOLE)
@pytest.mark.parametrize("size", [1, 5, 1_000_000])
def test_what_is_no_whole_answer_to_this_call_has_none(text: str, size: int) -> None:
    assert scan(text, size).verdict is None
    assert scan_events(f"data: {text}\n\n".encode(), size).verdict is None


def test_a_key_may_be_written_with_escapes() -> None:
    text = (
        '{"jsonrpc": "2.0", "\\u0069d": 281474976710657, '
        '"res\\u0075lt": {"content": [], "isErr\\u006fr": true}}'
    )
    for size in (1, 3, 100):
        assert scan(text, size).verdict == "failed"


def test_only_the_event_with_the_answer_counts() -> None:
    other = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress"})
    strange = json.dumps(answer() | {"id": 7})
    said = json.dumps(answer({"content": [], "isError": True}))
    assert scan_events(f"data: {other}\n\ndata: {strange}\n\n".encode()).verdict is None
    assert scan_events(f"event: x\ndata: {said}\n\n".encode()).verdict is None
    assert scan_events(f"data: {said}\n".encode()).verdict is None, "its end is missing"
    first = f": hi\n\ndata: {other}\n\ndata: {said}\n\ndata: {json.dumps(answer())}\n\n"
    for size in (1, 4, 1_000_000):
        assert scan_events(first.encode(), size).verdict == "failed"
    parts = said.replace(", ", ",\ndata: ")
    assert scan_events(f"data: {parts}\n\n".encode()).verdict == "failed"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


@given(value=values, is_error=st.booleans(), size=st.integers(1, 50))
def test_any_content_is_skipped(value: Any, is_error: bool, size: int) -> None:
    said = {"content": [value], "structuredContent": value, "isError": is_error}
    text = json.dumps(answer(said), ensure_ascii=size % 2 == 0)
    assert scan(text, size).verdict == ("failed" if is_error else "succeeded")
    assert scan(text[: len(text) - 1 - size], size).verdict is None


@given(value=values, at=st.integers(0, 2_000), size=st.integers(1, 50))
def test_cutting_out_a_comma_or_colon_of_the_outline_is_noticed(
    value: Any, at: int, size: int
) -> None:
    said = {"isError": True, "content": [value, value], "resultType": "complete"}
    text = json.dumps(answer(said))
    outline = [
        *(text.index(each) + len(each) for each in ('"jsonrpc"', '"id"', '"result"', '"isError"')),
        *(text.index(each) + len(each) for each in ('"2.0"', ID, "true")),
    ]
    cut = outline[at % len(outline)]
    assert text[cut] in ",:"
    assert scan(text[:cut] + text[cut + 1 :], size).verdict is None


@pytest.mark.parametrize(
    "filler",
    [b"x" * 8_192, b'\\"' * 4_096, b"\\\\" * 4_096, b"}" * 8_192],
)
def test_a_long_text_takes_constant_memory(filler: bytes) -> None:
    scanner = JsonScanner(ID, Budget())
    scanner.feed(
        b'{"jsonrpc":"2.0","id":281474976710657,"result":{"content":[{"type":"text","text":"'
    )
    tracemalloc.start()
    for _ in range(4_000):
        scanner.feed(filler)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    scanner.feed(b'"}]}}')
    scanner.finish()
    assert scanner.verdict == "succeeded"
    assert peak < 1_000_000


@pytest.mark.parametrize("filler", [b'"",', b"[],", b'{"a":1},', b"1,"])
def test_more_steps_than_are_worth_it_are_given_up(filler: bytes) -> None:
    scanner = JsonScanner(ID, Budget())
    scanner.feed(b'{"jsonrpc":"2.0","id":281474976710657,"result":[')
    with pytest.raises(GaveUp):
        for _ in range(4_000):
            scanner.feed(filler * 2_000)


@pytest.mark.parametrize("row", [b'{"a":[1,{"b":"}]"}],"c":null},', b'[[[["\\"]"]]]],', b"{},"])
def test_many_rows_are_skipped_with_few_steps(row: bytes) -> None:
    budget = Budget()
    before = budget.left
    scanner = JsonScanner(ID, budget)
    scanner.feed(
        b'{"jsonrpc":"2.0","id":281474976710657,"result":{"content":[],"structuredContent":{"rows":['
    )
    for _ in range(400):
        scanner.feed(row * 2_000)
    scanner.feed(b"7]}}}")
    scanner.finish()
    assert scanner.verdict == "succeeded"
    assert before - budget.left < 50_000


def test_depth_costs_no_memory() -> None:
    tracemalloc.start()
    scanner = scan(
        b'{"jsonrpc":"2.0","id":281474976710657,"result":{"content":[' + b"[" * 9_000_000, 8_192
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert scanner.verdict is None
    assert peak < 20_000_000


def test_lines_are_bounded() -> None:
    scanner = EventScanner(ID, Budget())
    with pytest.raises(GaveUp):
        for _ in range(4_000):
            scanner.feed(b"\n" * 2_000)
