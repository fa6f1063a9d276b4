"""A service's form as fields, and what a browser sends of it as the values that were asked for."""

from typing import Any

import pytest
from django.http import QueryDict

from chatapp.rendering.cards.question_form import (
    Field,
    RequestForm,
    build_request_form,
    read_values,
)
from mcpconfig.values.questions import find_problems, parse_requests
from mcpconfig.values.results import InputRequest

PROPERTIES: dict[str, Any] = {
    "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 20},
    "mail": {"type": "string", "format": "email"},
    "page": {"type": "string", "format": "uri"},
    "day": {"type": "string", "format": "date"},
    "when": {"type": "string", "format": "date-time"},
    "essay": {"type": "string", "maxLength": 2000},
    "weight": {"type": "number", "minimum": 0.5},
    "count": {"type": "integer", "maximum": 9, "default": 3},
    "sure": {"type": "boolean", "default": True},
    "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
    "tags": {"type": "array", "items": {"enum": ["red", "blue"]}, "default": ["blue"]},
}


def form(properties: dict[str, Any] | None = None, required: tuple[str, ...] = ()) -> InputRequest:
    """As a service sends it, read by the same code as in an operation."""
    schema = {"type": "object", "properties": properties or PROPERTIES, "required": list(required)}
    params = {"mode": "form", "message": "Tell me.", "requestedSchema": schema}
    (request,) = parse_requests({"key": {"method": "elicitation/create", "params": params}})
    return request


def address(url: str) -> RequestForm:
    return build_request_form(
        InputRequest(key="k", mode="url", message="Go.", url=url), 0, None, {}
    )


def fields(request: InputRequest, sent: QueryDict | None = None) -> dict[str, Field]:
    return {each.name: each for each in build_request_form(request, 0, sent, {}).fields}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("name", "text"),
        ("mail", "email"),
        ("page", "url"),
        ("day", "date"),
        ("when", "text"),
        ("essay", "long"),
        ("weight", "number"),
        ("count", "number"),
        ("sure", "boolean"),
        ("size", "one"),
        ("tags", "several"),
    ],
)
def test_each_kind_of_value_has_its_field(name: str, kind: str) -> None:
    assert fields(form())[f"v0-{name}"].kind == kind


def test_bounds_are_passed_on_to_the_browser() -> None:
    found = fields(form())
    assert dict(found["v0-name"].attributes) == {"maxlength": "20", "minlength": "2"}
    assert dict(found["v0-weight"].attributes) == {"min": "0.5", "step": "any"}
    assert dict(found["v0-count"].attributes) == {"max": "9"}


def test_what_the_service_proposes_is_filled_in() -> None:
    found = fields(form())
    assert found["v0-count"].value == "3"
    assert found["v0-sure"].is_chosen
    assert [each.value for each in found["v0-tags"].choices if each.is_chosen] == ["blue"]


def test_what_was_typed_stays_in_place_of_what_was_proposed() -> None:
    found = fields(form(), QueryDict("v0-count=many&v0-tags=red&v0-size=l"))
    assert found["v0-count"].value == "many"
    assert not found["v0-sure"].is_chosen
    assert [each.value for each in found["v0-tags"].choices if each.is_chosen] == ["red"]
    assert [str(each.words) for each in found["v0-size"].choices if each.is_chosen] == ["Large"]


def test_the_values_have_the_types_that_were_asked_for() -> None:
    sent = QueryDict(
        "v0-name=Ada&v0-mail=a@b.example&v0-weight=1.5&v0-count=4&v0-sure=true&v0-size=s"
        "&v0-tags=red&v0-tags=blue"
    )
    values = read_values(form(), 0, sent)
    assert values == {
        "name": "Ada",
        "mail": "a@b.example",
        "weight": 1.5,
        "count": 4,
        "sure": True,
        "size": "s",
        "tags": ["red", "blue"],
    }
    assert find_problems(form(), values) == {}


def test_what_is_left_empty_is_not_given_but_a_box_that_is_not_ticked_is_a_no() -> None:
    assert read_values(form(), 0, QueryDict("v0-name=&v0-count=")) == {"sure": False}


@pytest.mark.parametrize(
    ("sent", "name", "problem"),
    [
        ("", "name", "This field is required."),
        ("v0-name=A", "name", "At least 2 characters."),
        ("v0-name=Ada&v0-count=some", "count", "Enter a whole number."),
        ("v0-name=Ada&v0-count=1e999", "count", "Enter a whole number."),
        ("v0-name=Ada&v0-count=10", "count", "At most 9."),
        ("v0-name=Ada&v0-mail=nobody", "mail", "Enter an email address."),
        ("v0-name=Ada&v0-size=xl", "size", "Choose one of the options."),
        ("v0-name=Ada&v0-tags=green", "tags", "Choose one of the options."),
        ("v0-name=Ada&v0-day=soon", "day", "Enter a date, such as 2026-07-28."),
    ],
)
def test_what_does_not_fit_is_said_beside_its_field(sent: str, name: str, problem: str) -> None:
    request = form(required=("name",))
    problems = find_problems(request, read_values(request, 0, QueryDict(sent)))
    assert problems[name] == problem
    shown = build_request_form(request, 0, QueryDict(sent), problems)
    assert {each.name: each.problem for each in shown.fields}[f"v0-{name}"] == problem


def test_two_forms_with_the_same_names_are_told_apart() -> None:
    sent = QueryDict("v0-name=Ada&v1-name=Bob")
    request = form({"name": {"type": "string"}})
    assert [read_values(request, place, sent)["name"] for place in (0, 1)] == ["Ada", "Bob"]


@pytest.mark.parametrize("name", ["secret", "token", "PIN", "bot_token"])
def test_a_form_that_may_ask_for_a_secret_is_warned_of(name: str) -> None:
    (warning,) = build_request_form(form({name: {"type": "string"}}), 0, None, {}).warnings
    assert "must not ask for secrets" in warning


def test_a_form_that_asks_for_no_secret_is_not_warned_of() -> None:
    assert build_request_form(form(), 0, None, {}).warnings == ()


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("https://xn--pypal-4ve.example/pay", "look-alike"),
        ("http://127.0.0.1:9/here", "not encrypted"),
    ],
)
def test_an_address_that_could_deceive_is_warned_of(url: str, word: str) -> None:
    shown = address(url)
    assert any(word in warning for warning in shown.warnings)
    assert shown.url == url


def test_hidden_characters_of_a_service_are_drawn() -> None:
    request = form({"name": {"type": "string", "title": "Na\u202eme"}})
    assert "U+202E" in fields(request)["v0-name"].title
