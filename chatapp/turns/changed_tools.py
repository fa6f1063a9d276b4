"""Tools that a turn calls and that are not what was confirmed or allowed: said once at the top of
its answer."""

from collections.abc import Iterable, Sequence

from django.db.models import Q

from chatapp.models import HousePolicy, ToolCall, Turn
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from mcpconfig.models import ToolSetting

from .journal import Entry
from .policy import live_consents
from .top_notices import CHANGED, note_once

MOST_NAMED = 5


def note_changed(turn: Turn, calls: Sequence[ToolCall], catalogue: Catalogue) -> list[Entry]:
    """Store the notice inside the caller's transaction; returns what the journal must say."""
    called = {call.tool_id: tool for call in calls if (tool := catalogue.get(call.tool_id))}
    tools = list(called.values())
    if not tools:
        return []
    said = [
        *_sentences(_unlike_confirmed(tools), "since an admin confirmed it, so it asks each time"),
        *_sentences(
            _unlike_allowed(turn, tools),
            "since you allowed it in advance, so that does not hold for it any more",
        ),
    ]
    return note_once(turn, CHANGED, " ".join(said))


def _unlike_confirmed(tools: Iterable[CatalogueTool]) -> list[CatalogueTool]:
    services = {tool.service_id for tool in tools}
    rows = ToolSetting.objects.filter(service__in=services).exclude(confirmed_hash="")
    confirmed = {(row.service_id, row.name): row.confirmed_hash for row in rows}
    return [
        tool
        for tool in tools
        if confirmed.get((tool.service_id, tool.tool_name), tool.definition_hash)
        != tool.definition_hash
    ]


def _unlike_allowed(turn: Turn, tools: Iterable[CatalogueTool]) -> list[CatalogueTool]:
    """Those that this person allowed as they were before, and not as they are."""
    conversation = turn.conversation
    given = live_consents(conversation.owner, HousePolicy.current()).filter(
        Q(conversation=None) | Q(conversation=conversation),
        service__in={tool.service_id for tool in tools},
    )
    held = list(given.values_list("service_id", "definitions"))
    return [tool for tool in tools if _lapsed(tool, held)]


def _lapsed(tool: CatalogueTool, held: Iterable[tuple[int, dict[str, str]]]) -> bool:
    hashes = {
        definitions[tool.tool_name]
        for service, definitions in held
        if service == tool.service_id and tool.tool_name in definitions
    }
    return bool(hashes) and tool.definition_hash not in hashes


def _sentences(tools: Sequence[CatalogueTool], what: str) -> list[str]:
    said = [
        f"The tool “{tool.tool_name}” of “{tool.service_name}” has changed {what}."
        for tool in tools[:MOST_NAMED]
    ]
    more = len(tools) - MOST_NAMED
    return [*said, f"So have {more} more."] if more > 0 else said
