"""Names in the condition of a rule: those that no tool of the rule has are refused."""

from typing import Any

import pytest

from chatapp.permissions.conditions import BadCondition
from chatapp.policy.condition_names import check_names
from mcpconfig.models import Service, ToolDefinition

pytestmark = pytest.mark.django_db
PAY = {"type": "object", "properties": {"recipient": {}, "amount": {}}}


def make_service(name: str, **schemas: Any) -> Service:
    service = Service.objects.create(
        name=name, url=f"https://{name}.example/mcp", visibility="everyone"
    )
    for tool, schema in schemas.items():
        ToolDefinition.objects.create(
            service=service, name=tool, hash=f"{name}-{tool}", input_schema=schema
        )
    return service


@pytest.fixture
def bank() -> Service:
    nothing = {"type": "object", "properties": {}}
    return make_service("bank", pay=PAY, list=nothing)


def refuses(text: str, service: Service | None, tool: str = "", *, is_core: bool = False) -> str:
    """The sentence of the refusal, or an empty string."""
    try:
        check_names(text, service=service, tool=tool, is_core=is_core)
    except BadCondition as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    ("service", "tool"), [("bank", "pay"), ("bank", ""), (None, "pay"), (None, "")]
)
def test_a_misspelt_name_is_refused_with_the_name_that_was_meant(
    bank: Service, service: str | None, tool: str
) -> None:
    about = bank if service else None
    sentence = refuses('recipent != "x" and amount < 5', about, tool)
    assert "“recipent”" in sentence and "“recipient”?" in sentence
    assert refuses('recipient != "x" and amount < 5', about, tool) == ""


def test_a_name_of_another_tool_of_the_service_is_refused_for_one_tool(bank: Service) -> None:
    assert "“amount”" in refuses("amount < 5", bank, "list")
    assert refuses("amount < 5", bank) == ""


def test_the_tools_of_the_program_are_known() -> None:
    assert refuses('text == "x"', None, "remember", is_core=True) == ""
    assert "“txt”" in refuses('txt == "x"', None, "remember", is_core=True)


def test_nothing_is_refused_where_no_tool_is_known() -> None:
    assert refuses("anything == 1", make_service("new")) == ""


def test_a_tool_that_takes_any_value_takes_any_name(bank: Service) -> None:
    free = make_service("free", run={"type": "object"})
    assert refuses("anything == 1", free) == ""
    assert refuses("anything == 1", bank) != ""


def test_properties_of_branches_count() -> None:
    schema = {"anyOf": [{"properties": {"a": {}}}, {"allOf": [{"properties": {"b": {}}}]}]}
    branches = make_service("branches", run=schema)
    assert refuses("a == 1 or b == 2", branches) == ""
    assert "“c”" in refuses("c == 1", branches)


@pytest.mark.parametrize(
    "schema", [{"properties": 5}, {"properties": ["a"]}, {"anyOf": 7}, {"anyOf": [True, None]}]
)
def test_a_schema_that_is_no_schema_has_no_names(schema: dict[str, Any]) -> None:
    assert "“a”" in refuses("a == 1", make_service("odd", run=schema))


def test_an_old_definition_does_not_count(bank: Service) -> None:
    ToolDefinition.objects.create(
        service=bank,
        name="pay",
        hash="old",
        input_schema={"properties": {"sum": {}}},
        is_current=False,
    )
    assert "“sum”" in refuses("sum < 5", bank, "pay")
