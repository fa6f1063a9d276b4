"""Every core tool against the blueprint: what is documented is true, and each provider takes it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from pydantic import BaseModel

from chatapp.models import Member
from chatapp.permissions.risk_evidence import LEVELS
from chatapp.providers.estimate import count_tool_tokens
from chatapp.providers.registry import DIALECTS
from chatapp.providers.request import ToolSpec
from chatapp.providers.tools.toolbox import Toolbox
from chatapp.tools import core
from chatapp.tools.blueprint import (
    DESCRIPTION_CHARACTERS,
    EVERYWHERE,
    INPUT_CHARACTERS,
    OUTPUT_CHARACTERS,
    CoreTool,
    Documentation,
    Strict,
)
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import Context, ToolError
from chatapp.tools.core import CORE_TOOLS, core_tool, core_tools
from chatapp.tools.core_catalogue import FILE_TOOLS, add_core_tools
from chatapp.tools.documentation import render_page, render_section

TOOLS = core_tools()
every_tool = pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
# All of them together, in each request that may use tools.
TOKENS = 1_900  # by our estimate, which is some 30 % too high for schemas


def spec(tool: CoreTool) -> ToolSpec:
    return ToolSpec(name=tool.name, description=tool.description, input_schema=tool.input_schema)


@every_tool
def test_it_is_listed_under_its_own_name(tool: CoreTool) -> None:
    assert core_tool(tool.name) == tool
    assert "_" not in tool.name
    assert tool.name == tool.name.lower()


@every_tool
def test_each_field_of_the_blueprint_says_something(tool: CoreTool) -> None:
    assert tool.title and tool.description.endswith(".")
    assert len(tool.description) <= DESCRIPTION_CHARACTERS
    assert tool.risk in LEVELS
    assert tool.risk_reason.endswith(".")
    assert tool.modes <= EVERYWHERE
    assert "chat" in tool.modes
    assert 0 < tool.calls_a_minute <= 60
    pages = tool.documentation
    for words in (pages.limitations, pages.limits, pages.rights, pages.errors, pages.clients):
        assert words.strip().endswith((".", ")."))
    assert not tool.is_for_admins or "dmin" in pages.rights


@every_tool
def test_what_does_more_than_read_is_not_offered_to_who_only_plans(tool: CoreTool) -> None:
    if "mcp_plan" in tool.modes:
        assert tool.risk == "low"


@every_tool
def test_its_examples_are_inputs_and_outputs_of_its_own(tool: CoreTool) -> None:
    assert tool.documentation.examples
    for example in tool.documentation.examples:
        tool.validate(example.input)
        output = tool.output.model_validate(example.output)
        assert output.model_dump(mode="json") == example.output
        assert tool.render_text(output).strip()


@every_tool
@pytest.mark.parametrize("provider", sorted(DIALECTS))
def test_every_provider_takes_it_as_it_is(tool: CoreTool, provider: str) -> None:
    box = Toolbox(DIALECTS[provider], [spec(tool)])
    assert box.left_out == []
    assert box.to_wire(tool.name) == tool.name
    written = json.dumps(tool.documentation.examples[0].input)
    wire = box.arguments_to_wire(tool.name, written)
    assert json.loads(box.arguments_from_wire(tool.name, wire)) == json.loads(written)


@every_tool
def test_what_it_was_not_asked_for_is_refused(tool: CoreTool) -> None:
    with pytest.raises(ToolError, match="Extra inputs are not permitted") as refused:
        tool.validate({**tool.documentation.examples[0].input, "sudo": True})
    assert refused.value.field == "sudo"


def test_those_of_every_chat_weigh_little() -> None:
    usual = [tool for tool in TOOLS if tool.name not in FILE_TOOLS]
    assert count_tool_tokens(tuple(map(spec, usual))) <= TOKENS


# --- the limits of the blueprint itself


class Words(Strict):
    words: str


class Echo(BaseModel):
    words: str


NOTHING = Documentation(examples=(), limitations="", limits="", rights="", errors="", clients="")


def tool_of(handler: Any, **fields: Any) -> CoreTool:
    return CoreTool(
        **{
            "name": "echo",
            "title": "Echo",
            "description": "Say it again.",
            "input": Words,
            "output": Echo,
            "risk": "low",
            "risk_reason": "It only repeats.",
            "modes": EVERYWHERE,
            "documentation": NOTHING,
            "handler": handler,
        }
        | fields
    )


def again(context: Context, asked: Words) -> Echo:
    return Echo(words=asked.words)


def context_of(person: Member) -> Context:
    return Context(person=person, catalogue=Catalogue())


def test_an_input_that_is_too_long_is_refused_before_it_is_read(owner: Member) -> None:
    tool = tool_of(again)
    fits = "x" * (INPUT_CHARACTERS - len('{"words": ""}'))
    assert tool.run(context_of(owner), {"words": fits})[1] == {"words": fits}
    with pytest.raises(ToolError, match="input is too long"):
        tool.run(context_of(owner), {"words": fits + "x"})


@pytest.mark.parametrize("where", ["in the text", "in the value"])
def test_an_output_that_is_too_long_is_refused(owner: Member, where: str) -> None:
    def long(context: Context, asked: Words) -> Echo:
        return Echo(words="x" * (OUTPUT_CHARACTERS if where == "in the value" else 1))

    loud = tool_of(long, render_text=lambda _: "x" * (OUTPUT_CHARACTERS + (where == "in the text")))
    with pytest.raises(ToolError, match="result is too long"):
        loud.run(context_of(owner), {"words": ""})


def test_the_field_at_fault_is_named_and_what_was_typed_is_not_repeated(owner: Member) -> None:
    with pytest.raises(ToolError) as refused:
        tool_of(again).run(context_of(owner), {"words": 7})
    assert (refused.value.field, refused.value.message) == (
        "words",
        "Input should be a valid string",
    )


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"words": "NUL \0"}, "words"),
        ({"words": "half \ud83d"}, "words"),
        ({"words": [{"deep": "\0"}]}, "words"),
        ({"words": float("nan")}, "words"),
        ({"\0": "fits"}, "\ufffd"),
    ],
)
def test_what_a_database_cannot_keep_is_refused_and_the_field_is_named(
    arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(ToolError, match="Leave that out") as refused:
        tool_of(again).validate(arguments)
    assert refused.value.field == field


def test_what_is_for_admins_refuses_everybody_else(
    owner: Member, stranger: Member, admin: Member
) -> None:
    tool = tool_of(again, is_for_admins=True)
    assert tool.run(context_of(admin), {"words": "a"})[0] == '{"words":"a"}'
    for person in (owner, stranger):
        with pytest.raises(ToolError, match="Only an admin"):
            tool.run(context_of(person), {"words": "a"})


def test_who_may_not_use_a_tool_is_not_offered_it(owner: Member, admin: Member) -> None:
    assert "add-service" in add_core_tools(Catalogue(), admin)
    assert "add-service" not in add_core_tools(Catalogue(), owner)
    assert "recall" in add_core_tools(Catalogue(), owner)
    owner.is_active = False
    assert not add_core_tools(Catalogue(), owner)


@pytest.mark.parametrize(
    ("mode", "there", "missing"),
    [
        ("chat", {"make-plan", "remember", "recall"}, {"find-tools"}),
        ("mcp_act", {"remember", "recall"}, {"make-plan", "ask-person"}),
        ("mcp_plan", {"recall", "current-time"}, {"remember", "forget", "make-plan"}),
    ],
)
def test_each_way_in_offers_its_own(
    owner: Member, mode: Any, there: set[str], missing: set[str]
) -> None:
    offered = set(add_core_tools(Catalogue(), owner, mode))
    assert there <= offered
    assert not missing & offered


def test_a_new_tool_takes_one_module_and_one_line(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = SimpleNamespace(TOOL=tool_of(again))
    monkeypatch.setitem(core.importlib.sys.modules, "tests.echo", module)  # type: ignore[attr-defined]  # the module's own import
    monkeypatch.setitem(CORE_TOOLS, "echo", "tests.echo")
    assert add_core_tools(Catalogue(), owner)["echo"].origin == "core"
    found = core_tool("echo")
    assert found is not None
    assert found.run(context_of(owner), {"words": "Hello"})[1] == {"words": "Hello"}


# --- the page about them


def test_the_page_says_what_the_modules_say() -> None:
    written = (Path(settings.BASE_DIR) / "docs/core-tools.md").read_text()
    how = "from chatapp.tools.documentation import render_page; print(render_page(), end='')"
    assert written == render_page(), (
        f'Generate it again: manage.py shell -v0 -c "{how}" > docs/core-tools.md'
    )


@every_tool
def test_the_page_has_a_section_with_examples_for_it(tool: CoreTool) -> None:
    text = render_section(tool)
    assert text.startswith(f"## `{tool.name}`")
    assert tool.documentation.limitations in text
    assert text.count("```json") == 2 * len(tool.documentation.examples)
