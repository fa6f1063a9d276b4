"""What admins and the person say about services and tools, for the model that is offered them.

A service's own words never come here: they are descriptions, which the model knows to be data.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chatapp.models import Guidance, Member
from chatapp.tools.catalogue import CatalogueTool
from chatapp.tools.plain_text import without_hidden
from mcpconfig.models import Service, ToolSetting
from mcpconfig.models.service import GUIDANCE_CHARACTERS

MOST_CHARACTERS = 16_000
HEADING = (
    "What follows was written by admins and by the person whom you help, to tell you how they want "
    "services and tools to be used. Where the two differ, the admins' word counts."
)
NOT_ALL = "More was written than fits here."


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One text; `tool` is empty where it is about the whole service."""

    service_id: int
    text: str
    tool: str = ""


def guidance_for(person: Member, offered: Iterable[CatalogueTool]) -> str:
    """The texts for these tools and their services, in an order that stays from call to call: the
    admins' words first, which are the same for everybody."""
    tools = {(tool.service_id, tool.tool_name): tool.tool_id for tool in offered}
    services = {service_id for service_id, _ in tools}
    if not services:
        return ""
    own = Guidance.objects.filter(person=person, service_id__in=services).order_by("pk")
    of_person = [Said(service_id=row.service_id, text=row.text, tool=row.tool) for row in own]
    names = dict(Service.objects.filter(pk__in=services).values_list("pk", "name"))
    lines = [*_lines(_of_admins(services), names, tools, "an admin")]
    lines += _lines(of_person, names, tools, "this person")
    return "\n".join([HEADING, *_fitting(lines)]) if lines else ""


def _of_admins(services: set[int]) -> list[Said]:
    about = Service.objects.filter(pk__in=services).exclude(guidance="")
    decided = ToolSetting.objects.filter(service_id__in=services).exclude(guidance="")
    return [
        *(Said(service_id=row.pk, text=row.guidance) for row in about),
        *(Said(service_id=row.service_id, text=row.guidance, tool=row.name) for row in decided),
    ]


def _lines(
    said: Iterable[Said], names: dict[int, str], tools: dict[tuple[int, str], str], whose: str
) -> Iterator[str]:
    for each in sorted(said, key=lambda each: (names[each.service_id], each.tool)):
        text = _on_its_own(each.text)
        tool_id = tools.get((each.service_id, each.tool))
        if text and not each.tool:
            yield f"- About the service {names[each.service_id]}, {whose} says: {text}"
        elif text and tool_id is not None:
            yield f"- About the tool {tool_id}, {whose} says: {text}"


def _on_its_own(text: str) -> str:
    """The text, set in, so that no line of it passes for what somebody else says."""
    lines = without_hidden(text.strip())[:GUIDANCE_CHARACTERS].splitlines()
    return "\n    ".join(line.strip() for line in lines if line.strip())


def _fitting(lines: list[str]) -> Iterator[str]:
    """As many as fit; whoever comes later gives way."""
    room = MOST_CHARACTERS
    for line in lines:
        room -= len(line)
        if room < 0:
            yield NOT_ALL
            return
        yield line
