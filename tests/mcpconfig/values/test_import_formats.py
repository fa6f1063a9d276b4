"""Service lists of other programs: parsed entries, and rejected ones with the reason."""

import json
from typing import Any

import pytest

from mcpconfig.values.import_formats import (
    BRIDGE,
    MAX_BYTES,
    MAX_ENTRIES,
    Entry,
    ImportFormatError,
    ParsedEntry,
    Placeholder,
    RejectedEntry,
    parse_services,
)

URL = "https://one.example/mcp"


def one(value: Any) -> ParsedEntry:
    (found,) = parse_services(json.dumps(value))
    return found


def servers(**entries: Any) -> dict[str, Any]:
    return {"mcpServers": entries}


def entry(value: Any) -> Entry:
    found = one(value)
    assert isinstance(found, Entry), found
    return found


# --- the forms of clients and editors -----------------------------------------------------------
@pytest.mark.parametrize(
    "value",
    [
        {"mcpServers": {"one": {"url": URL}}},
        {"mcpServers": {"one": {"type": "http", "url": URL}}},
        {"servers": {"one": {"type": "http", "url": URL}}, "inputs": []},
        {"mcp": {"servers": {"one": {"url": URL}}}},
        {"mcpServers": {"one": {"serverUrl": URL}}},
        {"mcpServers": {"one": {"httpUrl": URL}}},
        {"mcpServers": {"one": {"url": f" {URL}\n", "headers": {}}}},
    ],
)
def test_each_usual_form_is_read(value: Any) -> None:
    assert entry(value) == Entry(label="one", url=URL)


@pytest.mark.parametrize(
    ("kind", "transport"),
    [
        ("http", "auto"),
        ("streamable-http", "streamable-http"),
        ("streamableHttp", "streamable-http"),
        ("sse", "sse"),
    ],
)
def test_the_transport_is_kept(kind: str, transport: str) -> None:
    assert entry(servers(one={"type": kind, "url": URL})).transport == transport
    assert entry(servers(one={"transport": kind, "url": URL})).transport == transport


def test_oauth_and_being_off_are_kept() -> None:
    said = {"url": URL, "oauth": {"clientId": "us"}, "disabled": True}
    found = entry(servers(one=said))
    assert (found.has_oauth, found.client_id, found.is_enabled) == (True, "us", False)


def test_what_has_to_be_entered_is_found_once_and_in_order() -> None:
    value = {
        "servers": {
            "one": {
                "url": "https://${env:HOST}/mcp",
                "headers": {"Authorization": "Bearer ${input:token}", "X-Team": "${input:token}"},
            }
        },
        "inputs": [{"id": "token", "description": "Your token", "password": True}],
    }
    assert entry(value).placeholders == (
        Placeholder(key="env:HOST"),
        Placeholder(key="input:token", label="Your token"),
    )


def test_nothing_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_OPERATOR", "canary")
    found = entry(servers(one={"url": URL, "headers": {"X": "${SECRET_OF_THE_OPERATOR}"}}))
    assert "canary" not in str(found)


# --- the registry's form -------------------------------------------------------------------------
def of_registry(**fields: Any) -> dict[str, Any]:
    return {"name": "io.github.someone/weather", "title": "Weather", **fields}


def test_a_server_json_has_its_remote_with_blanks_for_what_it_wants() -> None:
    remote = {
        "type": "streamable-http",
        "url": "https://{tenant}.example/mcp",
        "variables": {"tenant": {"description": "Your tenant"}},
        "headers": [
            {"name": "X-Key", "description": "Your key", "isRequired": True, "isSecret": True},
            {"name": "X-Region", "description": "Where"},
            {"name": "X-Plan", "value": "plan {plan}", "variables": {"plan": {}}},
            {"name": "X-Fixed", "value": "as it {is}"},
        ],
    }
    found = entry(of_registry(description="The weather.", remotes=[remote]))
    assert (found.label, found.title, found.description) == ("weather", "Weather", "The weather.")
    assert (found.url, found.transport) == ("https://${tenant}.example/mcp", "streamable-http")
    assert found.headers == {
        "X-Key": "${X-Key}",
        "X-Region": "${X-Region}",
        "X-Plan": "plan ${plan}",
        "X-Fixed": "as it {is}",
    }
    assert found.placeholders == (
        Placeholder(key="tenant", label="Your tenant"),
        Placeholder(key="X-Key", label="Your key"),
        Placeholder(key="X-Region", label="Where", is_required=False),
        Placeholder(key="plan"),
    )


def test_several_remotes_are_several_services_also_as_the_registry_answers() -> None:
    remotes = [{"type": "sse", "url": URL}, {"type": "http", "url": URL}, "none"]
    found = parse_services(json.dumps({"server": of_registry(remotes=remotes), "_meta": {}}))
    assert [each.label for each in found] == ["weather", "weather-2", "weather-3"]
    assert isinstance(found[2], RejectedEntry)


@pytest.mark.parametrize("remotes", [None, [], {}])
def test_a_package_to_be_run_is_refused_with_the_way_out(remotes: Any) -> None:
    value = of_registry(packages=[{"registryType": "npm"}], remotes=remotes)
    assert one(value) == RejectedEntry(label="weather", reason=str(BRIDGE))


# --- what cannot be ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"command": "npx", "args": ["-y", "x"], "env": {"KEY": "canary"}}, "bridge"),
        ({"type": "stdio", "url": URL}, "bridge"),
        ({"command": "x", "url": URL}, "bridge"),
        ({}, "It has no URL."),
        ({"url": 3}, "It has no URL."),
        ({"type": "http"}, "It has no URL."),
        ("https://one.example", "not an object"),
        (None, "not an object"),
        ({"type": "ws", "url": URL}, "“ws” is none of"),
        ({"type": ["http"], "url": URL}, "is none of"),
        ({"url": URL, "headers": ["X: y"]}, "Its headers"),
        ({"url": URL, "headers": {"X": 3}}, "Its headers"),
        ({"url": URL, "headers": {"": "x"}}, "Its headers"),
        ({"url": URL, "headers": {"X": "a\r\nX-Other: b"}}, "Its headers"),
        ({"url": URL, "headers": {"X\nY": "a"}}, "Its headers"),
    ],
)
def test_an_entry_that_cannot_be_a_service_says_why(said: Any, reason: str) -> None:
    found = one(servers(odd=said))
    assert isinstance(found, RejectedEntry)
    assert (found.label, reason in found.reason) == ("odd", True), found.reason
    assert "canary" not in found.reason


def test_the_others_of_the_file_are_read_all_the_same() -> None:
    value = servers(program={"command": "x"}, one={"url": URL})
    assert [type(each) for each in parse_services(json.dumps(value))] == [RejectedEntry, Entry]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "This is not valid JSON."),
        ("{", "This is not valid JSON."),
        ('{"mcpServers": {}} // mine', "This is not valid JSON."),
        ('{"mcpServers": {"a": {"url": NaN}}}', "This is not valid JSON."),
        ("[" * 100_000, "This is not valid JSON."),
        ("[]", "This JSON has no"),
        ('"mcpServers"', "This JSON has no"),
        ("{}", "This JSON has no “mcpServers”"),
        ('{"mcpServers": []}', "This JSON has no “mcpServers”"),
        ('{"servers": [{"server": {}}]}', "This JSON has no “mcpServers”"),
        ('{"mcp": 3}', "This JSON has no “mcpServers”"),
        ('{"mcpServers": {}}', "There are no services in this text."),
        ('{"mcpServers": {"a": {}, "a": {}}}', "“a” appears twice"),
        ('{"mcpServers": {"a": {"url": "x", "url": "y"}}}', "“url” appears twice"),
        (" " * (MAX_BYTES + 1), "This is larger than 256 KB."),
        (
            json.dumps(servers(**{f"s{n}": {} for n in range(MAX_ENTRIES + 1)})),
            "There are more than 100 services.",
        ),
    ],
)
def test_a_text_that_cannot_be_read_says_why(text: str, sentence: str) -> None:
    with pytest.raises(ImportFormatError, match=sentence.replace("(", r"\(")):
        parse_services(text)
