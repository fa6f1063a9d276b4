"""Arguments have one exact form, and a hash that any change breaks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.permissions.binding import (
    MAX_BYTES,
    UnreadableArguments,
    binding_hash,
    canonical_arguments,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", "{}"),
        ("  \n", "{}"),
        ("{}", "{}"),
        ('{"b": 1, "a": [true, null]}', '{"a":[true,null],"b":1}'),
        ('{"a": 1.0}', '{"a":1}'),
        ('{"a": -0.0}', '{"a":0}'),
        ('{"a": 1e2, "b": 6.02e23}', '{"a":100,"b":6.02e+23}'),
        ('{"a": "\\u00e9\\n"}', '{"a":"é\\n"}'),
        ('{"a": "\\ud83d\\ude00"}', '{"a":"😀"}'),
        ('{"a": 9007199254740991}', '{"a":9007199254740991}'),
    ],
)
def test_the_same_values_have_one_form(text: str, canonical: str) -> None:
    assert canonical_arguments(text) == canonical


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ('{"a": 1} x', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 01}', "not valid JSON"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": 1, "\\u0061": 2}', "twice"),
        ('{"a": {"b": 1, "b": 1}}', "twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "too large"),
        ('{"a": 9007199254740992}', "9007199254740992 is too large"),
        ('{"a": -9007199254740993}', "too large"),
        ('{"a": 1e20}', "too large"),
        ('{"a": ' + "9" * 5_000 + "}", "too large"),
        ('{"a": "\\ud800"}', "invalid"),
        ('{"\\udfff": 1}', "invalid"),
        ('{"a": "' + "x" * MAX_BYTES + '"}', "256 KB"),
        ('{"a":' * 65 + "1" + "}" * 65, "64 levels"),
        ('{"a":' + "[" * 50_000 + "]" * 50_000 + "}", "64 levels"),
    ],
)
def test_what_cannot_be_shown_exactly_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UnreadableArguments, match=r"\.$") as refused:
        canonical_arguments(text)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 200


def test_sixty_four_levels_are_still_read() -> None:
    text = '{"a":' * 64 + "1" + "}" * 64
    assert canonical_arguments(text) == text


numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
objects = st.dictionaries(st.text(), json_values, max_size=5)


@given(objects)
def test_the_canonical_form_says_the_same_and_stays_as_it_is(value: dict[str, Any]) -> None:
    canonical = canonical_arguments(json.dumps(value))
    assert json.loads(canonical) == value
    assert canonical_arguments(canonical) == canonical


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_any_text_is_canonical_or_refused(text: str) -> None:
    try:
        canonical = canonical_arguments(text)
    except UnreadableArguments:
        return
    assert canonical_arguments(canonical) == canonical


@given(st.integers())
def test_an_integer_survives_exactly_or_is_refused(number: int) -> None:
    try:
        canonical = canonical_arguments(f'{{"id":{number}}}')
    except UnreadableArguments:
        assert abs(number) >= 2**53
        return
    assert canonical == f'{{"id":{number}}}'


SHOWN: dict[str, Any] = {
    "service_id": 1,
    "endpoint": "https://memos.test/mcp",
    "tool_name": "delete_memo",
    "definition_hash": "h",
    "arguments": '{"a":1}',
    "person_id": 7,
    "call_id": "c",
}
fields = st.fixed_dictionaries(
    {
        name: st.integers(0, 2**31) if isinstance(value, int) else st.text()
        for name, value in SHOWN.items()
    }
)


def test_the_hash_of_the_same_call_is_the_same() -> None:
    assert binding_hash(**SHOWN) == binding_hash(**dict(reversed(SHOWN.items())))
    assert len(binding_hash(**SHOWN)) == 64


@given(fields, fields)
def test_calls_with_any_difference_have_different_hashes(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert (binding_hash(**one) == binding_hash(**other)) == (one == other)


@pytest.mark.parametrize("name", SHOWN)
@given(data=st.data())
def test_a_change_of_one_field_changes_the_hash(name: str, data: st.DataObject) -> None:
    value = SHOWN[name]
    drawn = st.integers(0, 2**31) if isinstance(value, int) else st.text()
    changed = data.draw(drawn.filter(lambda other: other != value))
    assert binding_hash(**SHOWN) != binding_hash(**(SHOWN | {name: changed}))


def test_neighbouring_fields_cannot_borrow_from_each_other() -> None:
    one = binding_hash(**(SHOWN | {"endpoint": "ab", "tool_name": "c"}))
    assert one != binding_hash(**(SHOWN | {"endpoint": "a", "tool_name": "bc"}))
