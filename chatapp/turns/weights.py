"""What the description of a tool weighs, in tokens, about: counted once while its process keeps
the tool."""

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from chatapp.providers.estimate import tokens_of_tools
from chatapp.providers.request import ToolSpec
from chatapp.tools.catalogue import CatalogueTool

_WEIGHED: WeakKeyDictionary[CatalogueTool, int] = WeakKeyDictionary()


def spec_of(tool: CatalogueTool) -> ToolSpec:
    """The tool as a provider is told of it."""
    return ToolSpec(name=tool.tool_id, description=tool.description, input_schema=tool.input_schema)


def weight_of(tool: CatalogueTool) -> int:
    weight = _WEIGHED.get(tool)
    if weight is None:
        weight = _WEIGHED[tool] = tokens_of_tools((spec_of(tool),))
    return weight


def weight_of_all(tools: Iterable[CatalogueTool]) -> int:
    return sum(map(weight_of, tools))
