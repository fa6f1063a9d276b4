"""Notices at the top of an answer: services that are missing, tools that the provider left out, and
tools that have changed. Each kind is stored once for a turn."""

from collections.abc import Iterable, Sequence

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.journal import journal
from chatapp.journal.journal import CHANGED, LEFT_OUT, MISSING, SHORTENED, Entry, add_notice
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Consent, HousePolicy, Member, Part, ToolCall, Turn
from chatapp.policy.stored_policy import filter_live_consents
from chatapp.providers.events import ToolLeftOut
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from mcpconfig.models import Service, ToolSetting
from mcpconfig.oauth.sign_in_status import ConnectionState, get_sign_in_status
from mcpconfig.services.sharing import can_sign_in
from mcpconfig.values.acting import Acting

MAX_NAMED = 5


# --- missing services ----------------------------------------------------------------------------
def note_missing(lease: Lease, missing: Sequence[tuple[str, str]]) -> None:
    """Store which services are missing, and why. `missing` has their names and the reasons."""
    with lock_turn(lease) as turn:
        person = Member.objects.get(conversations=turn.conversation_id)
        lacks_sign_in = any(_lacks_sign_in(name, person) for name, _reason in missing)
        kind = Part.NoticeKind.SIGN_IN if lacks_sign_in else Part.NoticeKind.INFO
        entries = add_notice(turn, MISSING, _describe_missing(missing), kind=kind)
        journal.append(turn.conversation_id, turn.pk, entries)


def _describe_missing(missing: Sequence[tuple[str, str]]) -> str:
    names = [name for name, _reason in missing]
    titles = {service.name: str(service) for service in Service.objects.filter(name__in=names)}
    said = [
        _("The tools of “%(service)s” are not available. %(reason)s")
        % {"service": titles.get(name, name), "reason": reason}
        for name, reason in missing
    ]
    more = len(said) - MAX_NAMED
    if more > 0:
        rest = ngettext(
            "The tools of %(count)d other service are not available either.",
            "The tools of %(count)d other services are not available either.",
            more,
        )
        said[MAX_NAMED:] = [rest % {"count": more}]
    return " ".join(said)


def _lacks_sign_in(name: str, person: Member) -> bool:
    """Whether a sign-in of this person would bring the service back."""
    service = Service.objects.filter(name=name).first()
    if service is None or not can_sign_in(service, person):
        return False
    connection = get_sign_in_status(service, Acting.of(person))
    return connection.state not in (ConnectionState.READY, ConnectionState.CONNECTED)


# --- tools that the provider left out ------------------------------------------------------------
def note_left_out(turn: Turn, left_out: Sequence[ToolLeftOut]) -> list[Entry]:
    """Store the tools that the provider could not take, inside the caller's transaction. Return the
    journal entries to append."""
    hint = _("A model of another provider may accept them.")
    return add_notice(turn, LEFT_OUT, _describe_left_out(left_out), hint)


def _describe_left_out(left_out: Sequence[ToolLeftOut]) -> str:
    """Group the tools by reason, as many tools may share one."""
    names: dict[str, list[str]] = {}
    for tool in left_out:
        names.setdefault(tool.reason, []).append(tool.name)
    return " ".join(
        _("The model did not receive these tools: %(names)s. %(reason)s")
        % {"names": _join(group), "reason": reason}
        for reason, group in names.items()
    )


def _join(names: Sequence[str]) -> str:
    shown = [f"“{name}”" for name in names[:MAX_NAMED]]
    more = len(names) - MAX_NAMED
    if more <= 0:
        return ", ".join(shown)
    sentence = ngettext(
        "%(names)s and %(count)d more tool", "%(names)s and %(count)d more tools", more
    )
    return sentence % {"names": ", ".join(shown), "count": more}


# --- tools that have changed ---------------------------------------------------------------------
def note_changed(turn: Turn, calls: Sequence[ToolCall], catalogue: Catalogue) -> list[Entry]:
    """Store which of the called tools differ from what an admin confirmed or the person allowed,
    inside the caller's transaction. Return the journal entries to append."""
    called = {call.tool_id: tool for call in calls if (tool := catalogue.get(call.tool_id))}
    tools = list(called.values())
    if not tools:
        return []
    said = [
        *_describe_changed(
            _find_unlike_confirmed(tools),
            _("The tool “%(tool)s” of “%(service)s” has changed, so it asks each time."),
        ),
        *_describe_changed(
            _find_unlike_allowed(turn, tools),
            _("The tool “%(tool)s” of “%(service)s” has changed, so your permission has ended."),
        ),
    ]
    return add_notice(turn, CHANGED, " ".join(said))


def _find_unlike_confirmed(tools: Iterable[CatalogueTool]) -> list[CatalogueTool]:
    unconfirmed = [tool for tool in tools if not tool.is_confirmed]
    if not unconfirmed:
        return []
    services = {tool.service_id for tool in unconfirmed}
    rows = ToolSetting.objects.filter(service__in=services).exclude(confirmed_hash="")
    confirmed = {(row.service_id, row.name): row.confirmed_hash for row in rows}
    return [
        tool
        for tool in unconfirmed
        if confirmed.get((tool.service_id, tool.tool_name), tool.definition_hash)
        != tool.definition_hash
    ]


def _find_unlike_allowed(turn: Turn, tools: Iterable[CatalogueTool]) -> list[CatalogueTool]:
    """Return the tools that this person allowed under an earlier definition only."""
    conversation = turn.conversation
    services = {tool.service_id for tool in tools}
    given = Consent.objects.filter(person=conversation.owner_id, service__in=services)
    if not given.exists():  # as for most people, who gave none
        return []
    given = filter_live_consents(conversation.owner, HousePolicy.current()).filter(
        Q(conversation=None) | Q(conversation=conversation),
        service__in=services,
    )
    held = list(given.values_list("service_id", "definitions"))
    return [tool for tool in tools if _has_lapsed(tool, held)]


def _has_lapsed(tool: CatalogueTool, held: Iterable[tuple[int, dict[str, str]]]) -> bool:
    hashes = {
        definitions[tool.tool_name]
        for service, definitions in held
        if service == tool.service_id and tool.tool_name in definitions
    }
    return bool(hashes) and tool.definition_hash not in hashes


def _describe_changed(tools: Sequence[CatalogueTool], sentence: str) -> list[str]:
    said = [
        sentence % {"tool": tool.tool_name, "service": tool.service_name}
        for tool in tools[:MAX_NAMED]
    ]
    more = len(tools) - MAX_NAMED
    if more <= 0:
        return said
    rest = ngettext(
        "The same is true for %(count)d more tool.",
        "The same is true for %(count)d more tools.",
        more,
    )
    return [*said, rest % {"count": more}]


# --- shortened results ---------------------------------------------------------------------------
def note_shortened(turn: Turn, count: int) -> list[Entry]:
    """Store how many results were shortened for the model, inside the caller's transaction. Return
    the journal entries to append."""
    sentence = ngettext(
        "%(count)d tool result was shortened for the model. You still see all of it here.",
        "%(count)d tool results were shortened for the model. You still see all of them here.",
        count,
    )
    text = sentence % {"count": count}
    return add_notice(turn, SHORTENED, text if count else "")
