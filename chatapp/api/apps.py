"""What an app may have: its page, what its tool was given and answered, and calls of its service's
tools. A call that an app asks for is a turn like any other, but the model is not asked."""

import json
import uuid
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.db import IntegrityError, transaction
from django.http import Http404
from django.utils import timezone

from chatapp.models import (
    App,
    AppContents,
    Conversation,
    Member,
    ToolCall,
    Turn,
)
from chatapp.permissions.binding import UnreadableArguments, canonical_arguments
from chatapp.rendering.apps import app_uri_of
from chatapp.tools.tool_id import tool_id
from mcpconfig.acting import Acting
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.on_first_use import reading
from mcpconfig.tool_apps import app_page, is_for

from .direct_calls import begin
from .held_results import may_be_told, told_instead
from .intake import lock_latest
from .refusals import Refused

MOST_CALLS = 200
MOST_CALLS_A_MINUTE = 20
BUSY = "The assistant is still working on this chat."
TOO_MANY = "This app has asked for too many tools. Wait a minute."
NO_SUCH_TOOL = "The service of this app offers apps no tool of this name."


def call_with_app(person: Member, call_id: uuid.UUID) -> ToolCall:
    """A call of this person whose app may be shown now, or 404."""
    call = ToolCall.of(person, call_id)
    usable = Service.objects.for_member(person)
    if call.service not in usable or not app_uri_of(call):
        raise Http404("There is no app here.")
    return call


def read_app(person: Member, call: ToolCall) -> App:
    """The call's app as it was first shown; read from the service if it was not yet. Raises
    OperationError."""
    known = App.objects.select_related("contents").filter(tool_call=call).first()
    if known is not None:
        return known
    if call.service is None:
        raise Http404("There is no app here.")
    uri = app_uri_of(call)
    acting = Acting.of(person, call.turn.conversation_id)
    page = app_page(async_to_sync(reading.read_resource)(call.service, uri, acting=acting))
    with transaction.atomic():
        contents, _ = AppContents.objects.get_or_create(
            hash=page.hash, defaults={"html": page.html}
        )
        return App.objects.get_or_create(  # a second tab may have been faster: it shows the same
            tool_call=call,
            defaults={
                "contents": contents,
                "uri": uri,
                "connects": list(page.connects),
                "loads": list(page.loads),
            },
        )[0]


def told_to_app(call: ToolCall) -> dict[str, Any]:
    """What the app is told of the call that it belongs to."""
    return {"arguments": json.loads(call.arguments), "result": result_of(call)}


def result_of(call: ToolCall) -> dict[str, Any]:
    """A call that is over as a tool's result. What kept it from running is a failure in words; what
    a person has not given is not told."""
    if not may_be_told(call):
        words = [{"type": "text", "text": told_instead(call)}]
        return {"content": words, "isError": call.state == ToolCall.State.FAILED}
    if call.result is not None:
        given = {"content": call.content, "isError": bool(call.result.get("is_error"))}
        structured = call.result.get("structured")
        return given if structured is None else given | {"structuredContent": structured}
    said = (call.error or {}).get("message") or f"This was not run: {call.get_state_display()}."
    return {"content": [{"type": "text", "text": said}], "isError": True}


def receive_from_app(person: Member, shown: ToolCall, name: str, arguments: Any) -> ToolCall:
    """Accept a call that the app of `shown` asks for; policy decides about it as about the
    model's. Raises Refused."""
    definition = _tool(shown, name)
    try:
        text = canonical_arguments(json.dumps(arguments))
    except UnreadableArguments as problem:
        raise Refused(str(problem)) from None
    try:
        with transaction.atomic():
            return _accept(person, shown, definition, text)
    except IntegrityError:  # another turn began at this moment
        raise Refused(BUSY, 409) from None


def _tool(shown: ToolCall, name: str) -> ToolDefinition:
    """A tool that apps of the same service may use."""
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
    conversation = Conversation.objects.select_for_update().get(pk=shown.turn.conversation_id)
    _check_pace(shown)
    # Unlike a person's message an app's wish ends nothing that waits for an answer.
    if Turn.objects.filter(conversation=conversation, state__in=Turn.LIVE).exists():
        raise Refused(BUSY, 409)
    asked = tool_id(definition.service.name, definition.name)
    return begin(
        conversation,
        # Ids, which hold letters and digits only: the model reads this sentence too.
        words=f"The app of {shown.tool_id} asks for {asked}.",
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
    if asked.count() >= MOST_CALLS or lately.count() >= MOST_CALLS_A_MINUTE:
        raise Refused(TOO_MANY, 429)
