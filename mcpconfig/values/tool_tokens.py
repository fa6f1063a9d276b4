"""What tools cost in each request to a model."""

import json
from collections.abc import Iterable
from typing import Any, Protocol


class DescribedTool(Protocol):
    """A tool as its service lists it, or its stored definition."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Any: ...


def estimate_tool_tokens(tools: Iterable[DescribedTool]) -> int:
    """Estimate the tokens of the tools, with four characters a token."""
    described = (
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in tools
    )
    return sum(len(json.dumps(tool, ensure_ascii=False)) for tool in described) // 4
