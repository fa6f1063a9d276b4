"""What an input schema gives away about a tool, however deep it is hidden."""

from typing import Any

import pytest

from chatapp.permissions import reasons
from chatapp.permissions.risk import Risk, ToolFacts, classify
from chatapp.permissions.risk_evidence import UnreadableSchema, read_parameters

TEXT = {"type": "string"}


def judged(name: str, schema: dict[str, Any]) -> Risk:
    tool = ToolFacts(name=name, description="", input_schema=schema, annotations=None)
    return classify(tool)


def with_parameters(**parameters: Any) -> dict[str, Any]:
    return {"type": "object", "properties": parameters}


@pytest.mark.parametrize(
    ("parameter", "reason"),
    [
        ("sql", reasons.TAKES_SQL),
        ("sqlStatement", reasons.TAKES_SQL),
        ("command", reasons.TAKES_COMMAND),
        ("shell_command", reasons.TAKES_COMMAND),
        ("code", reasons.TAKES_CODE),
        ("script", reasons.TAKES_CODE),
    ],
)
def test_a_parameter_for_free_code_makes_any_unfamiliar_tool_high(
    parameter: str, reason: str
) -> None:
    risk = judged("frobnicate", with_parameters(**{parameter: TEXT}))
    assert risk == Risk(level="high", reasons=(reason,))


def test_free_sql_is_high_even_where_the_name_says_that_it_reads() -> None:
    assert judged("read_rows", with_parameters(sql=TEXT)).level == "high"


@pytest.mark.parametrize(
    "schema",
    [
        with_parameters(country_code=TEXT),
        with_parameters(code=TEXT),
        with_parameters(commandId=TEXT),
        with_parameters(sql={"type": "boolean"}),
        with_parameters(sql={"enum": ["daily", "weekly"]}),
    ],
)
def test_a_reading_tool_with_a_harmless_parameter_stays_low(schema: dict[str, Any]) -> None:
    assert judged("find_memos", schema).level == "low"


@pytest.mark.parametrize(
    "schema",
    [
        with_parameters(options=with_parameters(command=TEXT)),
        with_parameters(steps={"type": "array", "items": with_parameters(command=TEXT)}),
        with_parameters(command={"anyOf": [{"enum": ["ls"]}, TEXT]}),
        with_parameters(command={"type": ["null", "string"]}),
        with_parameters(command={"type": "array", "items": TEXT}),
        with_parameters(command=True),
        {"anyOf": [with_parameters(a=TEXT), with_parameters(command=TEXT)]},
        {
            **with_parameters(input={"$ref": "#/$defs/In~1put"}),
            "$defs": {"In/put": with_parameters(command=TEXT)},
        },
        {
            **with_parameters(command={"$ref": "#/$defs/Text"}),
            "$defs": {"Text": TEXT},
        },
    ],
)
def test_a_free_command_is_found_wherever_it_hides(schema: dict[str, Any]) -> None:
    assert judged("frobnicate", schema).level == "high"


@pytest.mark.parametrize(
    ("actions", "level"),
    [
        (["list", "get"], "low"),
        (["list", "frob"], "medium"),
        (["list", "update"], "medium"),
        (["list", "delete"], "high"),
        (["read", "createThing"], "high"),
        (["send", "reply"], "medium"),
    ],
)
def test_the_gravest_action_on_offer_counts(actions: list[str], level: str) -> None:
    for parameter in ("action", "operation", "method"):
        risk = judged("memos", with_parameters(**{parameter: {"enum": actions}}))
        assert risk.level == level, risk.reasons


def test_an_action_raises_a_name_that_only_reads() -> None:
    schema = with_parameters(action={"oneOf": [{"const": "list"}, {"const": "delete"}]})
    risk = judged("list_memos", schema)
    assert risk == Risk(level="high", reasons=(reasons.ACTIONS_SAY["deletes"],))


def test_the_name_says_what_an_action_acts_on() -> None:
    schema = with_parameters(action={"enum": ["start", "stop"]})
    assert judged("server_lifecycle", schema).level == "high"
    assert judged("egg_timer", schema).level == "medium"


def test_an_action_without_a_list_is_high_unless_the_tool_reads() -> None:
    assert judged("manage_calendar", with_parameters(action=TEXT)).level == "high"
    assert judged("list_events", with_parameters(action=TEXT)).level == "low"


def test_a_tool_that_sends_any_request_to_any_address_is_high() -> None:
    risk = judged("fetch", with_parameters(method=TEXT, url=TEXT))
    assert risk.level == "high"
    assert judged("fetch", with_parameters(method={"enum": ["GET"]}, url=TEXT)).level == "low"


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"properties": {"a": {"$ref": "https://example.com/schema"}}},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"anyOf": {"a": 1}},
        {"properties": {"a": {"enum": "delete"}}},
        {"$ref": 5},
    ],
)
def test_what_cannot_be_read_is_said_to_be_unreadable(schema: object) -> None:
    with pytest.raises(UnreadableSchema):
        read_parameters(schema)


def test_a_schema_that_refers_to_itself_is_read_once() -> None:
    tree = {
        **with_parameters(root={"$ref": "#/$defs/Node"}),
        "$defs": {
            "Node": with_parameters(
                command=TEXT, children={"type": "array", "items": {"$ref": "#/$defs/Node"}}
            )
        },
    }
    assert judged("frobnicate", tree).level == "high"
    assert [p.words for p in read_parameters(tree)].count(("command",)) == 1


def test_a_schema_too_deep_to_be_judged_is_high() -> None:
    schema: dict[str, Any] = with_parameters(a=TEXT)
    for _ in range(40):
        schema = with_parameters(a=schema)
    assert judged("list_memos", schema).level == "high"


def test_a_schema_too_large_to_be_judged_is_high() -> None:
    schema = with_parameters(**{f"p{number}": TEXT for number in range(6_000)})
    assert judged("list_memos", schema).level == "high"


def test_a_schema_that_multiplies_itself_is_given_up() -> None:
    definitions: dict[str, Any] = {"d0": TEXT}
    for number in range(1, 25):
        inner = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"anyOf": [inner, inner]}
    schema = {**with_parameters(a={"$ref": "#/$defs/d24"}), "$defs": definitions}
    assert judged("list_memos", schema).level == "high"
