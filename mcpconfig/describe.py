"""How a tool is named to models and judged: the chat knows, and registers its answer here."""

from collections.abc import Callable
from dataclasses import dataclass

from .models import ToolDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDescription:
    """The tool id that models see, and the tool's risk with its reasons."""

    id: str
    level: str
    reasons: list[str]


Describer = Callable[[ToolDefinition], ToolDescription]

_describers: list[Describer] = []


def set_describer(describer: Describer) -> None:
    """The one describer of this process; the last one set counts."""
    _describers[:] = [describer]


def describe(definition: ToolDefinition) -> ToolDescription:
    """Without a describer nothing is known of the risk, so nothing is claimed."""
    if _describers:
        return _describers[-1](definition)
    return ToolDescription(id="", level="", reasons=[])
