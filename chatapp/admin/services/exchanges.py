"""The trace in the admin, extended with chats: what a tool call of another person's chat sent and
received is shown after a reason, as on the page of the call.

Exchanges of checks, trials and background operations belong to no chat and need none. What a
person read without a tool call, such as a resource for a message, is only for that person.
"""

from dataclasses import dataclass
from typing import cast
from uuid import UUID

from django.contrib import admin
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest

from chatapp.admin.activity.chat_reasons import make_open_address
from chatapp.audit import chat_access
from chatapp.models import Conversation, LogEntry, Member, ToolCall, Trial
from chatapp.people.admin_rights import VIEW_CHATS
from chatapp.views.access import find_row
from mcpconfig.admin.exchanges import ExchangeAdmin
from mcpconfig.admin.operation_page import Lock
from mcpconfig.models import Exchange

# How many tool calls of opened chats, and how many trials, a search for a text looks into.
SEARCHED_CALLS = 500
# What a person does in a chat without a tool call, and long tasks recorded without their call.
CHAT_OPERATIONS = (
    *("read_resource", "get_prompt", "complete"),
    *("get_task", "answer_task", "cancel_task"),
)

admin.site.unregister(Exchange)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOfExchange:
    """The chat that an exchange belongs to. It is unknown if the chat was removed, or if there was
    no tool call. Only the member of the exchange may read it then."""

    conversation: Conversation | None
    had_call: bool = True


def find_chat(exchange: Exchange) -> ChatOfExchange | None:
    """Return the chat that sent this; None if no chat did. At most two statements."""
    if not exchange.round_id:
        is_from_chat = exchange.operation in CHAT_OPERATIONS and exchange.person_id is not None
        return ChatOfExchange(conversation=None, had_call=False) if is_from_chat else None
    calls = ToolCall.objects.select_related("turn__conversation__owner")
    call = find_row(calls, exchange.round_id)
    if call is not None:
        return ChatOfExchange(conversation=call.turn.conversation)
    if find_row(Trial.objects.only("pk"), exchange.round_id) is not None:
        return None
    return ChatOfExchange(conversation=None)


def may_read(reader: Member, exchange: Exchange, found: ChatOfExchange | None) -> bool:
    """Return whether this admin may see what the exchange sent and received."""
    if found is None:
        return True
    if found.conversation is None:
        return exchange.person_id == reader.pk
    return chat_access.may_read(reader, found.conversation.pk)


@admin.register(Exchange)
class ChatExchangeAdmin(ExchangeAdmin):
    def find_lock(self, request: HttpRequest, exchange: Exchange) -> Lock | None:
        reader, found = cast(Member, request.user), find_chat(exchange)
        if found is None or may_read(reader, exchange, found):
            return None
        if found.conversation is None:
            return Lock(is_removed=found.had_call, is_from_other=not found.had_call)
        owner = found.conversation.owner.username
        if not reader.has_perm(VIEW_CHATS):
            return Lock(owner=owner)
        return Lock(owner=owner, open_address=make_open_address(request, found.conversation.pk))

    def limit_searched(self, request: HttpRequest) -> Q:
        """Leave out what chats sent that this admin may not read now. A search would find out,
        letter by letter, what their pages hide."""
        reader = cast(Member, request.user)
        rounds = [*_list_opened_calls(reader), *_list_trials()]
        no_chat = Q(round_id="") & (~Q(operation__in=CHAT_OPERATIONS) | Q(person_id=None))
        return no_chat | Q(person_id=reader.pk) | Q(round_id__in=list(map(str, rounds)))


def _list_opened_calls(reader: Member) -> list[UUID]:
    """Return the newest calls of the chats for which the reader gave a reason lately."""
    if not reader.has_perm(VIEW_CHATS):
        return []
    opened = LogEntry.objects.filter(
        kind=LogEntry.Kind.CHAT_OPENED,
        actor_id=reader.pk,
        at__gt=Now() - chat_access.READING_TIME,
    )
    calls = ToolCall.objects.filter(
        turn__conversation__in=list(opened.values_list("conversation_id", flat=True))
    )
    newest = calls.order_by("-turn__created_at", "-pk")
    return list(newest.values_list("pk", flat=True)[:SEARCHED_CALLS])


def _list_trials() -> list[UUID]:
    newest = Trial.objects.order_by("-sent_at").values_list("pk", flat=True)
    return list(newest[:SEARCHED_CALLS])
