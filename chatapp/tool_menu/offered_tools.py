"""The tools that a model is offered: all of them or, if they would take too much of its context,
a tool that finds the others. Also the tokens of each tool."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from weakref import WeakKeyDictionary

from django.conf import settings

from chatapp.models import Conversation, Turn
from chatapp.providers.access.model_choice import ChosenModel
from chatapp.providers.estimate import count_tool_tokens
from chatapp.providers.request import ToolSpec
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from chatapp.tools.core import FIND_TOOLS, core_tool
from chatapp.tools.tool_search import choose_sent_tools

REMEMBERED = "Facts about this person are remembered: recall them where they may matter."
RECALL = "recall"
# Assumed for a model of unknown context size.
USUAL_CONTEXT = 128_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """`saved_tokens` counts the tokens of tools that are not sent."""

    tools: tuple[ToolSpec, ...]
    instructions: str = ""
    saved_tokens: int = 0


def offer_tools(
    turn: Turn, model: ChosenModel, catalogue: Catalogue, *, has_memories: bool
) -> Offer:
    """Return the tools for the next model call of this turn, which was read just now.

    If facts about the person are remembered, the model reads that, and never the facts: those come
    only as results of a call, as data."""
    if not model.takes_tools:
        return Offer(tools=())
    usable = _list_usable(turn, catalogue)
    own = _list_always_sent(usable, calculate_tool_room(model))
    others = [tool for tool in usable if not own or tool.origin == "service"]
    weights = {tool.tool_id: weigh_tool(tool) for tool in others}
    sent, saved = choose_sent_tools(others, weights, calculate_tool_room(model), turn.loaded_tools)
    told = tuple(build_spec(tool) for tool in (*own, *sent))
    can_recall = any(tool.tool_name == RECALL for tool in own)
    memory = REMEMBERED if can_recall and has_memories else ""
    if not saved:
        return Offer(tools=told, instructions=memory)
    finder = _build_core_spec(FIND_TOOLS)
    return Offer(
        tools=(finder, *told),
        instructions="\n\n".join(filter(None, [_write_instructions(others), memory])),
        saved_tokens=max(0, saved - count_tool_tokens((finder,))),
    )


def _list_always_sent(usable: list[CatalogueTool], room: int) -> list[CatalogueTool]:
    """Return the core tools, which are small. For a model with too little context for them they
    are found by search, like the others."""
    own = [tool for tool in usable if tool.origin == "core"]
    return own if weigh_tools(own) <= room else []


def _list_usable(turn: Turn, catalogue: Catalogue) -> list[CatalogueTool]:
    """Return the tools of the catalogue; in a chat that plans, only those that read."""
    tools = list(catalogue.values())
    if turn.conversation.mode == Conversation.Mode.ACT:
        return tools
    return [tool for tool in tools if tool.risk.level == "low"]


def calculate_tool_room(model: ChosenModel) -> int:
    """Return how many tokens the descriptions of tools may take. Beyond that, tools are found by
    search."""
    return int((model.context_tokens or USUAL_CONTEXT) * settings.TOOL_SHARE_PERCENT / 100)


def _write_instructions(usable: list[CatalogueTool]) -> str:
    counts = Counter(tool.service_name or "this chat itself" for tool in usable)
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))
    return (
        f"You are not shown every tool. Find and load them with {FIND_TOOLS}. There are "
        f"tools of these services: {listed}."
    )


@cache
def _build_core_spec(name: str) -> ToolSpec:
    tool = core_tool(name)
    if tool is None:
        raise LookupError(name)
    return ToolSpec(name=tool.name, description=tool.description, input_schema=tool.input_schema)


_SPECS: WeakKeyDictionary[CatalogueTool, ToolSpec] = WeakKeyDictionary()


def build_spec(tool: CatalogueTool) -> ToolSpec:
    """Return the tool in the form that providers get, cached with the tool."""
    spec = _SPECS.get(tool)
    if spec is None:
        spec = _SPECS[tool] = ToolSpec(
            name=tool.tool_id, description=tool.description, input_schema=tool.input_schema
        )
    return spec


def weigh_tool(tool: CatalogueTool) -> int:
    """Return the tokens of the tool's description."""
    return count_tool_tokens((build_spec(tool),))


def weigh_tools(tools: Iterable[CatalogueTool]) -> int:
    return sum(map(weigh_tool, tools))
