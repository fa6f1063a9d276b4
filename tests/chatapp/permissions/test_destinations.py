"""Which values of a call decide where data goes, and that looking for them is bounded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.permissions.destinations import (
    Destination,
    carries_data,
    list_destinations,
    list_free_parameters,
    looks_outward,
)
from chatapp.permissions.risk import ToolFacts

TEXT = {"type": "string"}


def a_tool(
    properties: dict[str, Any] | None = None,
    *,
    name: str = "get_page",
    description: str = "",
    schema: Any = None,
    **facts: Any,
) -> ToolFacts:
    whole = {"type": "object", "properties": properties or {}} if schema is None else schema
    return ToolFacts(
        name=name,
        description=description,
        input_schema=whole,
        annotations=facts.pop("annotations", None),
        **facts,
    )


def list_kinds(tool: ToolFacts, **arguments: Any) -> list[tuple[str, str, str]]:
    found = list_destinations(tool, arguments)
    return [(each.parameter, each.kind, each.host) for each in found]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "address") for name in ("url", "imageURL", "webhook_url", "callbackUrl", "URIs")),
        *((name, "address") for name in ("href", "link", "endpoint", "webhook", "url_to_fetch")),
        *((name, "address") for name in ("host", "hostname", "host_name", "domain", "domain-name")),
        *((name, "address") for name in ("server", "ip", "ip_address", "address", "proxy")),
        *((name, "recipient") for name in ("email", "toEmail", "email_address", "recipients")),
        *((name, "recipient") for name in ("cc", "bcc", "phone")),
        *((name, None) for name in ("link_id", "url_count", "curl", "hostility", "addressee_id")),
        *((name, None) for name in ("to", "channel", "query", "id", "title", "path", "ipsum")),
    ],
)
def test_a_reading_tool_by_the_names_of_its_parameters(name: str, kind: str | None) -> None:
    assert list_free_parameters(a_tool({name: TEXT})).get(name) == kind


@pytest.mark.parametrize("name", ["to", "channel", "attendees"])
def test_a_sending_tool_has_more_names_of_recipients(name: str) -> None:
    assert list_free_parameters(a_tool({name: TEXT}, name="send_note")) == {name: "recipient"}


@pytest.mark.parametrize(
    ("format_", "kind"),
    [
        *((each, "address") for each in ("uri", "url", "iri", "uri-reference", "hostname")),
        *((each, "address") for each in ("idn-hostname", "ipv4", "ipv6", "URI")),
        *((each, "recipient") for each in ("email", "idn-email")),
        *((each, None) for each in ("date", "uuid", "regex")),
    ],
)
def test_a_parameter_by_its_format(format_: str, kind: str | None) -> None:
    known = list_free_parameters(a_tool({"thing": {**TEXT, "format": format_}}))
    assert known.get("thing") == kind


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"type": "object", "properties": {"url": TEXT}}}},
        {"properties": {"x": {"type": "array", "items": {"properties": {"url": TEXT}}}}},
        {"properties": {"url": {"type": "array", "items": TEXT}}},
        {"properties": {"url": {"anyOf": [{"type": "null"}, TEXT]}}},
        {"anyOf": [{"properties": {"url": TEXT}}, {"properties": {"id": TEXT}}]},
        {
            "$ref": "#/$defs/A",
            "$defs": {
                "A": {
                    "properties": {"url": {"$ref": "#/$defs/B"}},
                },
                "B": TEXT,
            },
        },
        {"properties": {"url": True}},
        {"properties": {"url": {"anyOf": [{"enum": ["https://a.test"]}, TEXT]}}},
        {"properties": {"x": {"$ref": "#"}, "url": TEXT}},
        {"required": ["url"]},
    ],
)
def test_a_parameter_is_found_wherever_it_stands(schema: dict[str, Any]) -> None:
    assert list_free_parameters(a_tool(schema=schema)) == {"url": "address"}


@pytest.mark.parametrize(
    "closed",
    [
        {"enum": ["https://a.test/", "https://b.test/"]},
        {"const": "https://a.test/"},
        {"anyOf": [{"const": "https://a.test/"}, {"type": "null"}]},
    ],
)
def test_a_choice_that_the_definition_lists_is_not_free(closed: dict[str, Any]) -> None:
    tool = a_tool({"url": closed})
    assert list_free_parameters(tool) == {}
    assert list_kinds(tool, url="https://a.test/") == []
    assert list_kinds(tool, url="https://evil.test/") == [("url", "address", "evil.test")]


A, B = ("x", "address", "a.test"), ("x", "address", "b.test")
UNCLEAR = ("x", "address", "")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("https://a.test/x?y=z", [A]),
        ("Read https://a.test/x and (https://b.test/).", [A, B]),
        ("Read https://a.test/x. Then more", [A]),
        ('<a href="https://a.test/">', [UNCLEAR]),
        ("https://a.test'@evil.test/?d=S", [UNCLEAR]),
        ("https://a.test\n@evil.test/", [UNCLEAR]),
        ("https://a.test\t.evil.test/", [UNCLEAR]),
        ("https://a.test/ evil.test/?d=", [UNCLEAR]),
        ("https://a.test/,evil.test/", [UNCLEAR]),
        ("see https://a.test'@evil.test/", [UNCLEAR]),
        ("see https://a.test\n.evil.test/", [UNCLEAR]),
        ("see https://a.test @evil.test/", [UNCLEAR]),
        ("see https://a.test/,evil.test/ now", [UNCLEAR]),
        ("one\nsee https://a.test/ now", [A]),
        ("see https://a.test/ and h\nttps:/\n/evil.test/", [A, UNCLEAR]),
        ("h\nttps:/\n/evil.test/?d=S", [UNCLEAR]),
        ("\x01https:evil.test/?d=S", [UNCLEAR]),
        ("evil\u3002test/x", [UNCLEAR]),
        ("evil\uff61test/x", [UNCLEAR]),
        ("evil\uff0etest/x", [UNCLEAR]),
        ("https&#58;//evil.test", [UNCLEAR]),
        ("https&#x3a//evil.test", [UNCLEAR]),
        ("https&colon;//evil.test", [UNCLEAR]),
        ("https%253A%252F%252Fevil.test", [UNCLEAR]),
        ("https%26%2358%3B//evil.test", [UNCLEAR]),
        ("[2001:db8::1]/x", [("x", "address", "2001:db8::1")]),
        ("2130706433/x", [UNCLEAR]),
        ("0x7f000001/x", [UNCLEAR]),
        ("localhost:8080/x", [("x", "address", "localhost")]),
        ("secret.evil.sh", [("x", "address", "secret.evil.sh")]),
        ("secret.evil.zip", [("x", "address", "secret.evil.zip")]),
        ("evil.test/?d=S@a.test", [("x", "recipient", "")]),
        ("a" + "\u0300\u0323" * 20, [UNCLEAR]),
        ("a" + "%CC%80" * 40, [UNCLEAR]),
        ("a" + "\u0300" * 4, []),
        ("first line.\nSecond line &amp; more", []),
        ("\u306f\u3044\u3002\u6b21", []),
        ("12/24/2025", []),
        ("a.test", [A]),
        ("a.test/path with words", [UNCLEAR]),
        ("a.test:8080", [A]),
        ("192.0.2.7", [("x", "address", "192.0.2.7")]),
        ("2001:db8::7", [UNCLEAR]),
        ("//a.test/x", [UNCLEAR]),
        ("https:a.test", [UNCLEAR]),
        ("\\\\a.test\\share", [UNCLEAR]),
        ("mailto:eve@a.test", [UNCLEAR]),
        ("https%3A%2F%2Fa.test", [UNCLEAR]),
        ("\uff48ttps\uff1a//a.test", [UNCLEAR]),
        ("\uff41.test", [UNCLEAR]),
        ("  https://a.test/", [A]),
        ("x://a.test", [UNCLEAR]),
        ("://a.test", [UNCLEAR]),
        ("https://u@a.test/", [UNCLEAR]),
        ("eve@a.test", [("x", "recipient", "@a.test")]),
        (["a.test", {"deep": ["b.test"]}], [B, A]),
        ({"https://a.test/": 1}, [A]),
        ("notes.md", []),
        ("main.py", []),
        ("main.py/x", [("x", "address", "main.py")]),
        ("1.2.3", []),
        ("a sentence. And another", []),
        ("12:30", []),
        ("mail eve@a.test about it", []),
        ("", []),
        (7, []),
        (True, []),
        (None, []),
    ],
)
def test_a_value_of_another_name_by_its_form(value: Any, found: list[Any]) -> None:
    assert list_kinds(a_tool(), x=value) == found


@pytest.mark.parametrize("name", ["path", "file_name", "fileName", "package", "version"])
def test_a_dotted_value_of_a_file_or_package_is_no_host(name: str) -> None:
    assert list_kinds(a_tool(), **{name: "com.example.app"}) == []
    assert list_kinds(a_tool(), **{name: "https://a.test"}) == [(name, "address", "a.test")]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"url": "prod-1"}, [("url", "address", "prod-1")]),
        ({"url": "not an address"}, [("url", "address", "")]),
        ({"url": ""}, []),
        ({"url": None}, []),
        ({"ip": 3221225985}, [("ip", "address", "")]),
        (
            {"url": ["https://a.test", "https://b.test"]},
            [("url", "address", "b.test"), ("url", "address", "a.test")],
        ),
        (
            {"email": "a@a.test, b@b.test"},
            [("email", "recipient", "@a.test"), ("email", "recipient", "@b.test")],
        ),
        ({"email": "a@a.test, somebody"}, [("email", "recipient", "")]),
        ({"cc": [{"name": "Ada", "email": "a@a.test"}]}, [("cc", "recipient", "@a.test")]),
        ({"cc": {"who": "Ada"}}, [("cc", "recipient", "")]),
        ({"at": {"url": {"value": "a.test"}}}, [("at", "address", "a.test")]),
        (
            {"cc": {"email": "a@a.test", "handle": "@evil"}},
            [("cc", "recipient", ""), ("cc", "recipient", "@a.test")],
        ),
        (
            {"url": {"host": "a.test", "authority": "127.1"}},
            [("url", "address", ""), ("url", "address", "a.test")],
        ),
        ({"url": "evil.test/?d=SECRET@a.test"}, [("url", "address", "evil.test")]),
        ({"url": "eve@a.test"}, [("url", "address", "")]),
        ({"address": "eve@a.test"}, [("address", "address", "@a.test")]),
        ({"phone": "+1 555 0100"}, [("phone", "recipient", "")]),
        ({"https://a.test/": "x"}, [("https://a.test/", "address", "a.test")]),
    ],
)
def test_a_value_of_a_known_name(arguments: dict[str, Any], found: list[Any]) -> None:
    assert list_kinds(a_tool(), **arguments) == found


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"chat_id": "@evil"}, [("chat_id", "recipient", "")]),
        ({"channelId": 7}, [("channelId", "recipient", "")]),
        ({"note_id": "7"}, []),
        (
            {"share_with": "eve@evil.test, bob@b.test"},
            [("share_with", "recipient", "@evil.test"), ("share_with", "recipient", "@b.test")],
        ),
        ({"people": "Eve <eve@evil.test>"}, [("people", "recipient", "@evil.test")]),
        ({"text": f"{'x ' * 1_000}eve@evil.test"}, []),
    ],
)
def test_a_tool_that_acts_has_recipients_in_more_values(
    arguments: dict[str, Any], found: list[Any]
) -> None:
    assert list_kinds(a_tool(name="share_note"), **arguments) == found
    assert list_kinds(a_tool(name="get_note"), **arguments) == []


def test_a_nested_choice_of_the_same_name_closes_no_other_value() -> None:
    inner = {"type": "object", "properties": {"url": {"enum": ["https://evil.test/"]}}}
    tool = a_tool({"url": TEXT, "options": inner})
    assert list_kinds(tool, url="https://evil.test/") == [("url", "address", "evil.test")]


def test_a_value_in_an_object_or_a_list_is_marked_as_inner() -> None:
    arguments = {
        "url": "https://a.test/",
        "options": {"url": "https://b.test/"},
        "urls": ["https://c.test/"],
        "https://d.test/": "",
    }
    found = list_destinations(a_tool(), arguments)
    assert [(each.host, each.is_inner) for each in found] == [
        ("a.test", False),
        ("b.test", True),
        ("c.test", True),
        ("d.test", True),
    ]


# --- searches of the web ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "description", "is_outward"),
    [
        ("web_search", "", True),
        ("brave_web_search", "", True),
        ("searchTheInternet", "", True),
        ("google_search", "", True),
        ("ask_perplexity", "", True),
        ("find", "Search the web for pages.", True),
        ("lookup", "Performs an internet search.", True),
        ("search_notes", "Search your notes.", False),
        ("google_drive_search", "", False),
        ("list_web_apps", "", False),
        ("search", "Search the issues. The web page of each is returned as well.", False),
    ],
)
def test_a_tool_that_searches_the_web(name: str, description: str, is_outward: bool) -> None:
    assert looks_outward(a_tool(name=name, description=description)) is is_outward


def test_only_a_trusted_service_says_that_a_search_stays_inside() -> None:
    hints = {"openWorldHint": False}
    assert looks_outward(a_tool(name="web_search", annotations=hints))
    assert not looks_outward(a_tool(name="web_search", annotations=hints, is_trusted=True))
    assert looks_outward(a_tool(name="web_search", annotations="nonsense", is_trusted=True))


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("weather in Oslo tomorrow", False),
        ("python 3.11 asyncio TaskGroup 2024-05-01 2024-06-01", False),
        ("who wrote the novel of 1984", False),
        ("x" * 31, False),
        ("word " * 50, True),
        ("https://a.test/", True),
        ("ada@a.test", True),
        ("call +1 (555) 010-0100", True),
        ("4111 1111 1111 1111", True),
        ("sk-live-4f9a8b7c6d5e4f3a", True),
        ("QWxhZGRpbjpvcGVuIHNlc2FtZQ" * 2, True),
        ("x" * 32, True),
    ],
)
def test_a_search_of_a_few_words_carries_no_data(text: str, does: bool) -> None:
    assert carries_data(text) is does
    found = [Destination(parameter="q", kind="query")] if does else []
    tool = a_tool({"q": TEXT}, name="web_search")
    kept = [each for each in list_destinations(tool, {"q": text}) if each.kind == "query"]
    assert kept == found
    assert list_kinds(a_tool({"q": TEXT}, name="search_notes"), q="4111 1111 1111 1111") == []


# --- hostile input -----------------------------------------------------------------------------
def nest(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {"properties": {"x": inner}}
    return inner


@pytest.mark.parametrize(
    "schema",
    [
        7,
        {"properties": 7},
        {"$ref": "https://elsewhere.test/"},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"properties": {"url": {"$ref": "#/properties/url"}}},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        nest(5_000, {}),
        {"properties": {f"p{n}": {} for n in range(50_000)}},
        {"anyOf": [{"anyOf": [{} for _ in range(200)]} for _ in range(200)]},
        {"properties": {"url": {"type": {}}}},
        {"properties": {"url": {"type": [{}]}}},
        {"properties": {"url": {"$ref": {}}}},
        {"$ref": []},
    ],
    ids=range(14),
)
def test_a_schema_that_cannot_be_read_hides_no_address(schema: Any) -> None:
    assert list_kinds(a_tool(schema=schema), url="https://a.test/") == [
        ("url", "address", "a.test")
    ]


@pytest.mark.parametrize(
    "value",
    [
        "https://" * 30_000,
        "a" * 250_000,
        "a." * 125_000,
        "://" * 80_000,
        "a@" * 120_000,
        "%25" * 80_000,
        "1" * 250_000,
        "\uff41." * 80_000,
        "\ufdfa" * 80_000,
        [""] * 80_000,
        [["x"]] * 40_000,
        {str(number): "x" for number in range(20_000)},
        "a@a.test," * 25_000,
        "a" + "\u0300\u0323" * 60_000,
        "a" + "\uff9e\u0323" * 60_000,
        "a" + "%CC%80%CC%A3" * 30_000,
    ],
    ids=range(16),
)
@pytest.mark.parametrize("name", ["x", "url", "email", "q"])
def test_hostile_values_are_read_within_bounds(name: str, value: Any) -> None:
    found = list_destinations(a_tool({name: TEXT}, name="web_search"), {name: value})
    assert len(found) <= 60
    assert list_destinations(a_tool(name="send"), {str(value)[:200_000]: value}) is not None


def test_the_last_of_many_recipients_counts() -> None:
    found = list_kinds(a_tool(), email="a@a.test," * 25_000 + "eve@evil.test")
    assert found == [("email", "recipient", "")]


SCHEMAS = st.recursive(
    st.sampled_from([True, {}, {"type": {}}, {"type": ["string", 7]}, {"enum": [1, "a.test"]}, 7])
    | st.fixed_dictionaries({"type": st.sampled_from(["string", "array", 7, None, [], {}])})
    | st.fixed_dictionaries({"format": st.sampled_from(["uri", "EMAIL", 7, {}])})
    | st.fixed_dictionaries({"$ref": st.sampled_from(["#", "#/properties/url", "#a", {}, 7])}),
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["properties", "patternProperties", "dependentSchemas", "$defs"]),
            st.dictionaries(st.sampled_from(["url", "to", "x"]), inner, max_size=3),
            max_size=2,
        )
        | st.dictionaries(
            st.sampled_from(["anyOf", "oneOf", "allOf", "prefixItems", "required", "enum"]),
            st.lists(inner, max_size=3),
            max_size=2,
        )
        | st.dictionaries(
            st.sampled_from(
                ["items", "if", "not", "additionalProperties", "const", "propertyNames"]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=10,
)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@given(
    st.dictionaries(st.text(max_size=9) | st.just("url") | st.just("to"), JSON, max_size=4),
    SCHEMAS | JSON,
    st.text(max_size=30),
)
def test_any_call_of_any_tool_is_read_without_an_error(
    arguments: dict[str, Any], schema: Any, name: str
) -> None:
    tool = a_tool(name=name, description=name, schema=schema, annotations=schema)
    found = list_destinations(tool, arguments)
    assert all(each.parameter in arguments for each in found)


def test_a_call_that_the_code_stumbles_over_has_an_unclear_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken: Any = 7
    assert [each.host for each in list_destinations(a_tool(), broken)] == [""]
    assert "could not be read" in caplog.text


def test_too_many_values_count_as_an_unclear_address() -> None:
    values = ["x"] * 5_000 + ["https://a.test/"]
    assert UNCLEAR in list_kinds(a_tool(), x=values)
    many = " ".join(f"https://h{number}.test" for number in range(60))
    assert UNCLEAR in list_kinds(a_tool(), x=many)
