"""Bodies in readable form."""

import pytest

from mcpconfig.trace.formatting import format_body


def test_json_is_set_out() -> None:
    assert format_body('{"a":[1,"é"]}') == '{\n  "a": [\n    1,\n    "é"\n  ]\n}'


def test_each_event_of_a_stream_is_set_out() -> None:
    body = 'event: message\ndata: {"a":1}\n\n: still here\ndata: not json\n'

    assert format_body(body) == (
        'event: message\ndata: {\n  "a": 1\n}\n\n: still here\ndata: not json'
    )


@pytest.mark.parametrize("body", ["", "plain words", "<html>", '{"cut": "of', "[" * 5_000])
def test_anything_else_stays_as_it_is(body: str) -> None:
    assert format_body(body) == body
