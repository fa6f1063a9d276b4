"""Questions are parsed within limits and brought into one shape; answers are checked against
them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.questions import find_problems, is_presentable, parse_requests
from mcpconfig.values.results import Answer, InputRequest, InputRequired


@pytest.fixture(autouse=True)
def _database() -> None:
    """These need none."""


def form(*required: str, **fields: object) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    params = {"mode": "form", "message": "Well?", "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def page(url: object) -> dict[str, Any]:
    params = {"mode": "url", "message": "Look here.", "url": url}
    return {"method": "elicitation/create", "params": params}


def one(said: object) -> InputRequest:
    (request,) = parse_requests({"key": said})
    return request


def field(said: object) -> Any:
    return one(form(field=said)).schema["properties"]["field"]


def refused(asked: object) -> str:
    with pytest.raises(OperationError) as caught:
        parse_requests(asked)
    assert caught.value.is_definite
    return caught.value.message


FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "string"}, {"type": "string", "title": "field"}),
    (
        {"type": "string", "title": "Mail", "format": "email", "minLength": 3, "maxLength": 50},
        {"type": "string", "title": "Mail", "format": "email", "minLength": 3, "maxLength": 50},
    ),
    (
        {"type": "integer", "minimum": 1, "maximum": 9, "default": 4, "description": "How many?"},
        {
            "type": "integer",
            "title": "field",
            "description": "How many?",
            "minimum": 1,
            "maximum": 9,
            "default": 4,
        },
    ),
    ({"type": "boolean", "default": True}, {"type": "boolean", "title": "field", "default": True}),
    (
        {"type": "string", "enum": ["a", "b"], "enumNames": ["Anna", "Bert"]},
        {
            "type": "string",
            "title": "field",
            "oneOf": [{"const": "a", "title": "Anna"}, {"const": "b", "title": "Bert"}],
        },
    ),
    (
        {"type": "string", "enum": ["a"], "enumNames": ["Anna", "Bert"], "default": "a"},
        {
            "type": "string",
            "title": "field",
            "oneOf": [{"const": "a", "title": "a"}],
            "default": "a",
        },
    ),
    (
        {"type": "string", "oneOf": [{"const": "a", "title": "Anna"}, {"const": "b"}]},
        {
            "type": "string",
            "title": "field",
            "oneOf": [{"const": "a", "title": "Anna"}, {"const": "b", "title": "b"}],
        },
    ),
    (
        {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "minItems": 1},
        {
            "type": "array",
            "title": "field",
            "items": {"oneOf": [{"const": "a", "title": "A"}]},
            "minItems": 1,
        },
    ),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["a"]},
        {
            "type": "array",
            "title": "field",
            "items": {"oneOf": [{"const": "a", "title": "a"}]},
            "default": ["a"],
        },
    ),
]


@pytest.mark.parametrize(("said", "expected"), FIELDS, ids=range(len(FIELDS)))
def test_every_kind_of_field_is_read_into_one_shape(
    said: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert field(said) == expected


@pytest.mark.parametrize(
    "said",
    [
        {"pattern": "(a+)+$", "$ref": "#/x", "format": "hostname"},
        {"minLength": "3", "maxLength": -1, "minimum": 5, "minItems": 2},
        {"title": 7, "description": ["x"], "default": 7},
        {"minLength": True, "maxLength": 10**9, "title": "x\x00"},
    ],
)
def test_what_is_said_beyond_that_does_not_count(said: dict[str, Any]) -> None:
    assert field({"type": "string"} | said) == {"type": "string", "title": "field"}


def test_a_default_that_breaks_its_own_rules_is_left_out() -> None:
    assert "default" not in field({"type": "integer", "maximum": 5, "default": 6})
    assert "default" not in field({"type": "string", "enum": ["a"], "default": "b"})


def test_a_form_without_fields_asks_for_a_yes() -> None:
    request = one(form())

    assert request.schema == {"type": "object", "properties": {}, "required": []}
    assert find_problems(request, {}) == {}


def test_only_fields_that_are_there_can_be_needed() -> None:
    assert one(form("field", "ghost", field={"type": "string"})).schema["required"] == ["field"]


def test_no_question_is_a_question_too() -> None:
    assert parse_requests(None) == ()
    assert parse_requests({}) == ()


LONG = "x" * (LIMITS.question_characters + 1)
MANY = {f"field-{number}": {"type": "string"} for number in range(LIMITS.form_fields + 1)}
CHOICES = [str(number) for number in range(LIMITS.form_options + 1)]
UNANSWERABLE: list[Any] = [
    {"key": {"method": "sampling/createMessage", "params": {"message": "x"}}},
    {"key": {"method": "roots/list"}},
    {"key": {"method": "elicitation/create"}},
    {"key": {"method": "elicitation/create", "params": {"message": 7}}},
    {"key": {"method": "elicitation/create", "params": {"message": LONG}}},
    {"key": {"method": "elicitation/create", "params": {"message": "x", "mode": "voice"}}},
    {"key": {"method": "elicitation/create", "params": {"message": "x"}}},
    {"k" * 256: form()},
    {"": form()},
    {7: form()},
    {"key": form(**MANY)},
    {"key": form(**{"n" * 256: {"type": "string"}})},
    {"key": form(field="string")},
    {"key": form(field={"type": "object", "properties": {}})},
    {"key": form(field={"type": ["string", "null"]})},
    {"key": form(field={"type": "array", "items": {"type": "string"}})},
    {"key": form(field={"type": "array"})},
    {"key": form(field={"type": "string", "enum": []})},
    {"key": form(field={"type": "string", "enum": CHOICES})},
    {"key": form(field={"type": "string", "enum": [1, 2]})},
    {"key": form(field={"type": "string", "enum": "ab"})},
    {"key": form(field={"type": "string", "oneOf": [{"title": "x"}]})},
    {"key": form(field={"type": "string", "oneOf": [{"const": "x", "title": 7}]})},
    {str(number): form() for number in range(LIMITS.questions + 1)},
    ["key"],
    "key",
]


@pytest.mark.parametrize("asked", UNANSWERABLE, ids=range(len(UNANSWERABLE)))
def test_what_cannot_be_put_to_a_person_is_refused_in_words(asked: object) -> None:
    assert refused(asked).startswith("The service asks for something that you can’t answer here.")


@pytest.mark.parametrize(
    "url",
    [
        "https://pay.example/7?a=b#c",
        "https://xn--pypal-4ve.example/",
        "http://127.0.0.1:8000/x",
        "http://localhost/x",
        "http://[::1]:1/x",
        "https://10.0.0.1/",
    ],
)
def test_an_address_that_people_may_open_is_kept_whole(url: str) -> None:
    assert is_presentable(url)
    assert one(page(url)).url == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://pay.example/", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd"),
        *("https://", "https:///x", "//pay.example/", "pay.example", "", "ftp://pay.example/"),
        *("https://bank.example@evil.example/", "https://evil.example\\@bank.example/"),
        *("https://pay.example/a b", "https://pay.example/\n", "https://pаy.example/"),
        *("https://pay.example/\u202egpj", "http://10.0.0.1/", "http://localhost.evil.example/"),
        *("https://pay.example:99999/", "https://[::1", "https://pay.example/" + "x" * 9_000),
        *("http://2130706433/", "http://127.1.evil.example/"),
        *(None, 7, b"https://pay.example/"),
    ],
)
def test_an_address_that_misleads_is_not_shown(url: object) -> None:
    assert not is_presentable(url)
    assert refused({"key": page(url)})


VALUES: list[tuple[dict[str, Any], Any, str]] = [
    ({"type": "string"}, "x", ""),
    ({"type": "string"}, 7, "Enter text."),
    ({"type": "string"}, "\ud800", "Enter text."),
    ({"type": "string", "minLength": 3}, "ab", "At least 3 characters."),
    ({"type": "string", "maxLength": 3}, "abcd", "At most 3 characters."),
    ({"type": "string", "format": "email"}, "ada@example.org", ""),
    ({"type": "string", "format": "email"}, "ada", "Enter an email address."),
    ({"type": "string", "format": "uri"}, "https://x.example", ""),
    ({"type": "string", "format": "uri"}, "x.example", "Enter an address, such as https://…"),
    ({"type": "string", "format": "date"}, "2026-07-28", ""),
    ({"type": "string", "format": "date"}, "2026-02-30", "Enter a date, such as 2026-07-28."),
    ({"type": "string", "format": "date-time"}, "2026-07-28T12:00:00Z", ""),
    (
        {"type": "string", "format": "date-time"},
        "2026-07-28",
        "Enter a date and a time, such as 2026-07-28T12:00:00Z.",
    ),
    ({"type": "number"}, 1.5, ""),
    ({"type": "number"}, "1.5", "Enter a number."),
    ({"type": "number"}, True, "Enter a number."),
    ({"type": "number"}, float("nan"), "Enter a number."),
    ({"type": "integer"}, 2.0, ""),
    ({"type": "integer"}, 2.5, "Enter a whole number."),
    ({"type": "integer", "minimum": 3}, 2, "At least 3."),
    ({"type": "integer", "maximum": 3}, 4, "At most 3."),
    ({"type": "boolean"}, False, ""),
    ({"type": "boolean"}, "no", "Enter yes or no."),
    ({"type": "string", "enum": ["a", "b"]}, "b", ""),
    ({"type": "string", "enum": ["a", "b"]}, "c", "Choose one of the options."),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "b"], ""),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, ["c"], "Choose one of the options."),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, [[]], "Choose one of the options."),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, "a", "Choose one of the options."),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "a"], "Choose each option only once."),
    ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1}, [], "Choose at least 1."),
    ({"type": "array", "items": {"enum": ["a"]}, "maxItems": 0}, ["a"], "Choose at most 0."),
]


@pytest.mark.parametrize(("said", "value", "problem"), VALUES, ids=range(len(VALUES)))
def test_a_value_is_held_against_what_was_asked(
    said: dict[str, Any], value: object, problem: str
) -> None:
    request = one(form("field", field=said))

    assert find_problems(request, {"field": value}) == ({"field": problem} if problem else {})


def test_what_is_needed_and_what_nobody_asked_for_is_said_by_name() -> None:
    request = one(form("here", here={"type": "string"}, there={"type": "string"}))

    assert find_problems(request, {"elsewhere": 1}) == {
        "here": "This field is required.",
        "elsewhere": "This field is not in the form.",
    }
    assert find_problems(request, None) == {"here": "This field is required."}


def test_values_survive_as_json() -> None:
    request = one(form("field", field={"type": "string", "enum": ["a"]}))
    pause = InputRequired(requests=(request, one(page("https://x.example/"))), request_state="s")
    answer = Answer(action="accept", content={"field": "a"})

    assert InputRequired.from_json(json.loads(json.dumps(pause.to_json()))) == pause
    assert InputRequest.from_json(json.loads(json.dumps(request.to_json()))) == request
    assert Answer.from_json(json.loads(json.dumps(answer.to_json()))) == answer


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
KEYWORDS = st.sampled_from(
    ["type", "title", "enum", "enumNames", "oneOf", "items", "default", "minimum", "format"]
)
SAID = st.dictionaries(
    KEYWORDS, JSON | st.sampled_from(["string", "array", "number", "integer", "boolean"])
)


@given(said=SAID, value=JSON)
def test_whatever_is_said_is_read_or_refused_and_whatever_is_answered_is_judged(
    said: dict[str, Any], value: object
) -> None:
    try:
        request = one(form("field", field=said))
    except OperationError as error:
        assert error.is_definite
        return
    assert set(find_problems(request, {"field": value})) <= {"field"}
    default = request.schema["properties"]["field"].get("default")
    assert default is None or find_problems(request, {"field": default}) == {}
