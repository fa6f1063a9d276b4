"""What MCP Apps may use: their page, the input and result of their tool, and calls of their
service's tools.

A call that an app requests is a turn like any other, without a model call.
"""

import json
import uuid
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.db import IntegrityError, transaction
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.context.withheld_results import describe_withheld, is_visible_to_model
from chatapp.conversations.intake import is_shown, lock_latest
from chatapp.models import App, AppContents, Conversation, Member, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.permissions.binding import UnreadableArguments, canonical_arguments
from chatapp.rendering.call_values import find_app_uri
from chatapp.tools.tool_id import tool_id
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.operations.lazy import reading
from mcpconfig.trace import recording
from mcpconfig.values.acting import Acting
from mcpconfig.values.tool_apps import is_for, parse_app_page

from .direct_calls import begin_turn

MAX_CALLS = 200
MAX_CALLS_A_MINUTE = 20
BUSY = gettext_lazy("The assistant is still working on this chat.")
TOO_MANY = gettext_lazy("This app has asked for too many tools. Wait a minute.")
HIDDEN = gettext_lazy("The chat shows another version now. Switch to this one to use its app.")
NO_SUCH_TOOL = gettext_lazy("The app’s service offers apps no tool with this name.")


def find_call_with_app(person: Member, call_id: uuid.UUID) -> ToolCall:
    """Return a call of this person whose app may be shown now, or raise 404."""
    call = ToolCall.of(person, call_id)
    usable = Service.objects.for_member(person)
    if call.service not in usable or not find_app_uri(call):
        raise Http404(_("There is no app here."))
    return call


def read_app(person: Member, call: ToolCall) -> App:
    """Return the call's app as it was first shown; the first time, read it from the service.
    Raise OperationError."""
    known = App.objects.select_related("contents").filter(tool_call=call).first()
    if known is not None:
        return known
    if call.service is None:
        raise Http404(_("There is no app here."))
    uri = find_app_uri(call)
    acting = Acting.of(person, call.turn.conversation_id)
    with recording.use_round(str(call.pk)):
        found = async_to_sync(reading.read_resource)(call.service, uri, acting=acting)
    page = parse_app_page(found)
    with transaction.atomic():
        contents, _created = AppContents.objects.get_or_create(
            hash=page.hash, defaults={"html": page.html}
        )
        return App.objects.get_or_create(  # another tab may have stored the same app
            tool_call=call,
            defaults={
                "contents": contents,
                "uri": uri,
                "connects": list(page.connects),
                "loads": list(page.loads),
            },
        )[0]


def build_app_input(call: ToolCall) -> dict[str, Any]:
    """Return the messages that the app gets about the call that it belongs to."""
    given = {"arguments": json.loads(call.arguments)}
    told = {"tool-input": given, "tool-result": build_app_result(call)}
    return {
        "messages": [
            {"method": f"ui/notifications/{name}", "params": params}
            for name, params in told.items()
        ]
    }


def build_app_result(call: ToolCall) -> dict[str, Any]:
    """Return a finished call in the form of a tool result. If it did not run, the reason is an
    error text; a result that a person has not released is left out."""
    if not is_visible_to_model(call):
        words = [{"type": "text", "text": describe_withheld(call)}]
        return {"content": words, "isError": call.state == ToolCall.State.FAILED}
    if call.result is not None:
        given = {"content": call.content, "isError": bool(call.result.get("is_error"))}
        structured = call.result.get("structured")
        return given if structured is None else given | {"structuredContent": structured}
    said = (call.error or {}).get("message") or _("This was not run: %(state)s.") % {
        "state": call.get_state_display()
    }
    return {"content": [{"type": "text", "text": said}], "isError": True}


def receive_from_app(person: Member, shown: ToolCall, name: str, arguments: Any) -> ToolCall:
    """Accept a call that the app of `shown` requests. Policy decides about it as about a call of
    the model. Raise Refused."""
    definition = _find_tool(shown, name)
    try:
        text = canonical_arguments(json.dumps(arguments))
    except UnreadableArguments as problem:
        raise Refused(str(problem)) from None
    try:
        with transaction.atomic():
            return _accept(person, shown, definition, text)
    except IntegrityError:  # another turn began meanwhile
        raise Refused(BUSY, 409) from None


def _find_tool(shown: ToolCall, name: str) -> ToolDefinition:
    """Return a tool that apps of the same service may use."""
    off = ToolSetting.objects.filter(service=shown.service_id, name=name, is_enabled=False)
    found = ToolDefinition.objects.filter(service=shown.service_id, name=name, is_current=True)
    definition = found.first()
    if definition is None or not is_for("app", definition.meta) or off.exists():
        raise Refused(NO_SUCH_TOOL, 403)
    return definition


def _accept(
    person: Member, shown: ToolCall, definition: ToolDefinition, arguments: str
) -> ToolCall:
    lock_latest(shown.turn.conversation)
    if not is_shown(shown.turn):
        raise Refused(HIDDEN, 409)
    conversation = Conversation.objects.select_for_update().get(pk=shown.turn.conversation_id)
    _check_pace(shown)
    # Unlike a person's message, an app's request ends no open question.
    if Turn.objects.filter(conversation=conversation, state__in=Turn.LIVE).exists():
        raise Refused(BUSY, 409)
    asked = tool_id(definition.service.name, definition.name)
    return begin_turn(
        conversation,
        # Ids have only letters and digits, so the model can read this sentence safely.
        words=_("The app of %(app)s asks for %(tool)s.") % {"app": shown.tool_id, "tool": asked},
        turn={
            "model": conversation.model,
            "services": [definition.service.name],
            "app_of": shown,
        },
        call={
            "tool_id": asked,
            "service": definition.service,
            "tool_name": definition.name,
            "definition": definition,
            "arguments": arguments,
        },
    )


def _check_pace(shown: ToolCall) -> None:
    asked = Turn.objects.filter(app_of=shown)
    lately = asked.filter(created_at__gt=timezone.now() - timedelta(minutes=1))
    if asked.count() >= MAX_CALLS or lately.count() >= MAX_CALLS_A_MINUTE:
        raise Refused(TOO_MANY, 429)
