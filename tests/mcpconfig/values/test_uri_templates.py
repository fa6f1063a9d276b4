"""URI templates: the RFC's own examples of all four levels, and what is refused."""

import pytest

from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.uri_templates import Value, expand, list_required_variables, list_variables

# The values that section 3.2 of RFC 6570 uses.
VALUES: dict[str, Value] = {
    "var": "value",
    "hello": "Hello World!",
    "half": "50%",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "x": "1024",
    "y": "768",
    "empty": "",
}

EXPANSIONS = {
    "{var}": "value",
    "{hello}": "Hello%20World%21",
    "{half}": "50%25",
    "O{empty}X": "OX",
    "O{undef}X": "OX",
    "{x,hello,y}": "1024,Hello%20World%21,768",
    "{var:3}": "val",
    "{list}": "red,green,blue",
    "{keys*}": "comma=%2C,dot=.,semi=%3B",
    "{+hello}": "Hello%20World!",
    "{+base}index": "http://example.com/home/index",
    "{+path:6}here": "/foo/bhere",
    "{#path,x}here": "#/foo/bar,1024here",
    "X{.list*}": "X.red.green.blue",
    "{/list*,path:4}": "/red/green/blue/%2Ffoo",
    "{;x,y,empty}": ";x=1024;y=768;empty",
    "{?x,y,empty}": "?x=1024&y=768&empty=",
    "{?list*}": "?list=red&list=green&list=blue",
    "?fixed=yes{&x}": "?fixed=yes&x=1024",
}


@pytest.mark.parametrize(("template", "expanded"), EXPANSIONS.items())
def test_a_template_expands_as_the_rfc_says(template: str, expanded: str) -> None:
    given = {name: VALUES[name] for name in list_variables(template) if name in VALUES}

    assert expand(template, given) == expanded


def test_the_names_of_a_template_are_told_in_order() -> None:
    assert list_variables("book://{shelf}/{name}{?page,name}") == ["shelf", "name", "page"]


def test_a_name_with_a_hyphen_is_taken_although_the_rfc_knows_none() -> None:
    assert expand("user://{user-id}", {"user-id": "7"}) == "user://7"


def test_a_value_cannot_leave_its_place() -> None:
    assert expand("file:///docs/{name}", {"name": "../../etc?x#y"}) == (
        "file:///docs/..%2F..%2Fetc%3Fx%23y"
    )


@pytest.mark.parametrize("template", ["a:{b", "a:b}", "a:{}", "a:{b c}", "a:{=b}", "a:{{b}}"])
def test_a_broken_template_is_refused(template: str) -> None:
    assert list_variables(template) == []
    with pytest.raises(OperationError, match="can’t be read"):
        expand(template, {})


def test_a_value_without_a_place_is_refused() -> None:
    with pytest.raises(OperationError, match="“pgae”"):
        expand("a:{page}", {"pgae": "1"})


def test_templates_and_uris_have_a_length() -> None:
    with pytest.raises(OperationError, match="can’t be read"):
        expand("a" * (LIMITS.uri_characters + 1), {})
    with pytest.raises(OperationError, match="too long"):
        expand("a:{b}", {"b": "x" * LIMITS.uri_characters})


@pytest.mark.parametrize(
    ("template", "needed"),
    [
        ("a://{x}/{y}", {"x", "y"}),
        ("a://{x}{?q,limit}", {"x"}),
        ("a://{x}{&q*}", {"x"}),
        ("a://{+path}{#part}{?q:3}", {"path", "part"}),
        ("a://{x}{?x}", {"x"}),
        ("a://fixed", set()),
        ("a://{broken", set()),
    ],
)
def test_values_outside_the_query_are_required(template: str, needed: set[str]) -> None:
    assert list_required_variables(template) == needed
