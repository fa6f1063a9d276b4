"""The values of an earlier call, to try its tool again. Copying sends nothing: the form shows them,
and the policy decides when the admin runs the tool. Secrets are left out."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.activity.chat_reasons import NO_RIGHT, make_open_address
from chatapp.audit import audit_log, chat_access
from chatapp.audit.audit_log import SERVER, AuditEvent, Who
from chatapp.models import Member, ToolCall
from chatapp.people.admin_rights import VIEW_CHATS
from chatapp.rendering.secret_mask import is_secret
from chatapp.views.access import MemberRequest, find_row
from mcpconfig.models import Exchange, ToolDefinition
from mcpconfig.values.masking import MASK
from mcpconfig.values.numbers import read_number

from .exchanges import find_chat, may_read

OTHER_TOOL = _lazy("The values could not be copied: they were sent to another tool.")
UNREADABLE = _lazy("The values could not be copied: they are not readable.")
CUT = _lazy("The values could not be copied: the trace has only the beginning of the request.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedValues:
    """The arguments as JSON, where they are from, and the names of the secrets that were left out.
    `problem` says why nothing was copied."""

    arguments: str = "{}"
    source: str = ""
    left_out: tuple[str, ...] = ()
    problem: str = ""


def copy_values(
    request: MemberRequest, definition: ToolDefinition
) -> CopiedValues | HttpResponse | None:
    """Return the values that the address names, or the page on which the admin first gives a
    reason to read the chat; None if it names none. Raise PermissionDenied or Http404."""
    if call := request.GET.get("call"):
        return _copy_from_call(request, definition, call)
    if exchange := request.GET.get("exchange"):
        return _copy_from_exchange(request, definition, exchange)
    return None


def _copy_from_call(
    request: MemberRequest, definition: ToolDefinition, call_id: str
) -> CopiedValues | HttpResponse:
    person = request.user
    if not person.has_perm("chatapp.view_toolcall"):
        raise PermissionDenied
    calls = ToolCall.objects.select_related("turn__conversation__owner")
    call = find_row(calls, call_id)
    if call is None:
        raise Http404("No such call.")
    conversation = call.turn.conversation
    if not chat_access.may_read(person, conversation.pk):
        if not person.has_perm(VIEW_CHATS):
            raise PermissionDenied(NO_RIGHT)
        return redirect(make_open_address(request, conversation.pk))
    if (call.service_id, call.tool_name) != (definition.service_id, definition.name):
        return CopiedValues(problem=str(OTHER_TOOL))
    source = _("call %(number)s of %(person)s") % {
        "number": str(call.pk)[:8],
        "person": conversation.owner.display_name,
    }
    copied = _leave_secrets_out(call.arguments, source)
    _log(
        person,
        definition,
        copied,
        owner=conversation.owner,
        conversation_id=conversation.pk,
        turn_id=call.turn_id,
        call_id=call.pk,
    )
    return copied


def _copy_from_exchange(
    request: MemberRequest, definition: ToolDefinition, number: str
) -> CopiedValues | HttpResponse:
    if not request.user.has_perm("mcpconfig.view_exchange"):
        raise PermissionDenied
    pk = read_number(number)
    found = None if pk is None else Exchange.objects.filter(pk=pk).first()
    if found is None:
        raise Http404("No such exchange.")
    if (found.service_id, found.tool) != (definition.service_id, definition.name):
        return CopiedValues(problem=str(OTHER_TOOL))
    chat = find_chat(found)
    if chat is not None and not may_read(request.user, found, chat):
        if chat.conversation is None or not request.user.has_perm(VIEW_CHATS):
            raise PermissionDenied(NO_RIGHT)
        return redirect(make_open_address(request, chat.conversation.pk))
    try:
        arguments = json.loads(found.request_body)["params"].get("arguments") or {}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return CopiedValues(problem=str(CUT))
    source = _("operation %(number)s") % {"number": str(found.operation_id)[:8]}
    copied = _leave_secrets_out(json.dumps(arguments, ensure_ascii=False), source)
    if chat is None or chat.conversation is None:
        _log(request.user, definition, copied)
    else:
        owner = chat.conversation.owner
        _log(request.user, definition, copied, owner, conversation_id=chat.conversation.pk)
    return copied


def _leave_secrets_out(arguments: str, source: str) -> CopiedValues:
    left_out: list[str] = []
    try:
        values = json.loads(arguments)
        kept = json.dumps(_strip(values, "", left_out), ensure_ascii=False)
    except (ValueError, RecursionError):
        return CopiedValues(problem=str(UNREADABLE))
    # The model may have written arguments that are no object. Such a call was never sent.
    if not isinstance(values, dict):
        return CopiedValues(problem=str(UNREADABLE))
    return CopiedValues(
        arguments=kept,
        source=source,
        left_out=tuple(dict.fromkeys(left_out)),
    )


def _strip(value: Any, name: str, left_out: list[str]) -> Any:
    """Return the value without secrets, and add the names of those to `left_out`."""
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if not _is_hidden(key, inner)}
        left_out += (key for key in value if key not in kept)
        return {key: _strip(inner, key, left_out) for key, inner in kept.items()}
    if isinstance(value, list):
        kept_items = [inner for inner in value if not _is_hidden(name, inner)]
        left_out += [name] * (len(kept_items) < len(value))
        return [_strip(inner, name, left_out) for inner in kept_items]
    return value


def _is_hidden(name: str, value: Any) -> bool:
    return is_secret(name, value) or (isinstance(value, str) and MASK in value)


def _log(
    person: Member,
    definition: ToolDefinition,
    copied: CopiedValues,
    owner: Member | None = None,
    **chat: UUID,
) -> None:
    """Record that the values were copied, for the log of the admin and of the owner of the chat."""
    if copied.problem:
        return
    data = {
        "tool": definition.name,
        "service": definition.service.name,
        "reason": _("From %(source)s.") % {"source": copied.source},
    }
    audit_log.append(
        [
            AuditEvent(
                kind=audit_log.Kind.VALUES_COPIED,
                data=data,
                actor=Who.of(person),
                person=Who.of(owner) if owner else SERVER,
                **chat,
            )
        ]
    )
