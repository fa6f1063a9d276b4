"""Which tools a model is told of: all of them, or, where that would fill too much of what it can
read, a tool to find the others with."""

from collections import Counter
from dataclasses import dataclass

from django.conf import settings

from chatapp.models import Conversation, Memory, Turn
from chatapp.providers.estimate import tokens_of_tools
from chatapp.providers.request import ToolSpec
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from chatapp.tools.core import FIND_TOOLS, core_tool
from chatapp.tools.tool_search import told_of

from .model_choice import ChosenModel
from .weights import spec_of, weight_of, weight_of_all

REMEMBERED = "Facts about this person are remembered: recall them where they may matter."
RECALL = "recall"
# Of a model whose size nobody said.
USUAL_CONTEXT = 128_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """`saved_tokens` is what the tools weigh that were left to be found."""

    tools: tuple[ToolSpec, ...]
    instructions: str = ""
    saved_tokens: int = 0


def offered_tools(turn: Turn, model: ChosenModel, catalogue: Catalogue) -> Offer:
    if not model.takes_tools:
        return Offer(tools=())
    usable = _usable(turn, catalogue)
    own = _always_told(usable, room_for_tools(model))
    others = [tool for tool in usable if not own or tool.origin == "service"]
    weights = {tool.tool_id: weight_of(tool) for tool in others}
    sent, saved = told_of(others, weights, room_for_tools(model), _loaded(turn))
    told = tuple(spec_of(tool) for tool in (*own, *sent))
    memory = _about_memory(turn) if any(tool.tool_name == RECALL for tool in own) else ""
    if not saved:
        return Offer(tools=told, instructions=memory)
    finder = _core_spec(FIND_TOOLS)
    return Offer(
        tools=(finder, *told),
        instructions="\n\n".join(filter(None, [_instructions(others), memory])),
        saved_tokens=max(0, saved - tokens_of_tools((finder,))),
    )


def _always_told(usable: list[CatalogueTool], room: int) -> list[CatalogueTool]:
    """The core tools, which weigh little; to a model that reads too little even for them they are
    left to be found, like the others."""
    own = [tool for tool in usable if tool.origin == "core"]
    return own if weight_of_all(own) <= room else []


def _about_memory(turn: Turn) -> str:
    """That something is remembered, and never what: facts come as the result of a call only, where
    they are data."""
    is_there = Memory.objects.filter(person=turn.conversation.owner_id).exists()
    return REMEMBERED if is_there else ""


def _usable(turn: Turn, catalogue: Catalogue) -> list[CatalogueTool]:
    """In a chat that plans, the tools that read."""
    tools = list(catalogue.values())
    if turn.conversation.mode == Conversation.Mode.ACT:
        return tools
    return [tool for tool in tools if tool.risk.level == "low"]


def _loaded(turn: Turn) -> list[str]:
    """What this turn found, as its row has it now."""
    found: list[str] = Turn.objects.values_list("loaded_tools", flat=True).get(pk=turn.pk)
    return found


def room_for_tools(model: ChosenModel) -> int:
    """How many tokens the descriptions of tools may take: beyond, they are left to be found."""
    return int((model.context_tokens or USUAL_CONTEXT) * settings.TOOL_SHARE_PERCENT / 100)


def _instructions(usable: list[CatalogueTool]) -> str:
    counts = Counter(tool.service_name or "this chat itself" for tool in usable)
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))
    return (
        f"You are not shown every tool. Find and load them with {FIND_TOOLS}. There are "
        f"tools of these services: {listed}."
    )


def _core_spec(name: str) -> ToolSpec:
    tool = core_tool(name)
    if tool is None:
        raise LookupError(name)
    return ToolSpec(name=tool.name, description=tool.description, input_schema=tool.input_schema)
